import json, time, urllib.request

model_service = "http://YOUR-MODEL.flexinfer-system.svc.cluster.local:8000/v1/chat/completions"
headers = {"Content-Type": "application/json"}
docs = [
    ("tenant-a/doc-1", "FlexInfer routing guide section A"),
    ("tenant-a/doc-2", "FlexInfer routing guide section B"),
    ("tenant-a/doc-3", "FlexInfer routing guide section C"),
]

def run_phase(name, make_request, iterations=60):
    lat = []
    ok = 0
    for i in range(iterations):
        req = make_request(i)
        start = time.time()
        try:
            with urllib.request.urlopen(req, timeout=60) as resp:
                if 200 <= resp.status < 300:
                    ok += 1
                _ = resp.read()
        except Exception:
            pass
        lat.append(time.time() - start)
    lat_sorted = sorted(lat)
    p50 = lat_sorted[int(len(lat_sorted) * 0.50)]
    p95 = lat_sorted[int(len(lat_sorted) * 0.95)]
    print(f"{name}: ok={ok}/{iterations} p50={p50:.2f}s p95={p95:.2f}s")

def body(doc_text):
    return json.dumps({
        "model": "/models",
        "messages": [
            {"role": "system", "content": "You answer using provided document context only."},
            {"role": "user", "content": f"Summarize: {doc_text}"}
        ],
        "document_context": doc_text,
        "max_tokens": 120
    }).encode()

def explicit_stable(i):
    key, doc = docs[i % len(docs)]
    h = dict(headers)
    h["X-Flexinfer-Cache-Key"] = key
    return urllib.request.Request(model_service, data=body(doc), headers=h)

def canonical_context(i):
    _, doc = docs[i % len(docs)]
    return urllib.request.Request(model_service, data=body(doc), headers=headers)

def malformed_key(i):
    _, doc = docs[i % len(docs)]
    h = dict(headers)
    h["X-Flexinfer-Cache-Key"] = f"bad key with spaces {i}"
    return urllib.request.Request(model_service, data=body(doc), headers=h)

run_phase("explicit-stable", explicit_stable)
run_phase("canonical-context", canonical_context)
run_phase("malformed-key", malformed_key)

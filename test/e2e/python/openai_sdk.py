"""The official OpenAI SDK against the gateway whose URL is the argument."""

import sys

import openai


def main(url):
    client = openai.OpenAI(base_url=url + "/v1", api_key="test", max_retries=0, timeout=60)
    messages = [{"role": "system", "content": "Be terse."}, {"role": "user", "content": "Hello"}]

    whole = client.chat.completions.create(model="chat", messages=messages)
    text = whole.choices[0].message.content
    assert text and whole.usage.completion_tokens == 24, whole

    chunks = list(client.chat.completions.create(model="chat", messages=messages, stream=True))
    streamed = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert streamed == text and len(chunks) >= 24, (streamed, text, len(chunks))

    response = client.responses.create(model="chat", instructions="Be terse.", input="Hello")
    assert response.output_text and response.status == "completed", response
    events = list(client.responses.create(model="chat", instructions="Be terse.", input="Hello", stream=True))
    streamed = "".join(e.delta for e in events if e.type == "response.output_text.delta")
    assert streamed == response.output_text and events[-1].type == "response.completed", (streamed, events[-1])

    # Unless told otherwise, this SDK asks for base64 and decodes it itself.
    embeddings = client.embeddings.create(model="chat", input=["one", "two"])
    assert [len(e.embedding) for e in embeddings.data] == [256, 256], embeddings
    plain = client.embeddings.create(model="chat", input=["one", "two"], encoding_format="float")
    for a, b in zip(embeddings.data[0].embedding, plain.data[0].embedding, strict=True):
        assert abs(a - b) < 1e-6, (a, b)

    try:
        client.chat.completions.create(model="no-such-model", messages=messages)
    except openai.NotFoundError as e:
        assert e.code == "model_not_found" and e.type and e.message, e.body
    else:
        raise AssertionError("an unknown model was served")

    try:
        client.chat.completions.create(model="chat", messages=[{"role": "user", "content": "x" * (33 << 20)}])
    except openai.APIStatusError as e:
        assert e.status_code == 413 and e.code == "request_too_large", e.body
    else:
        raise AssertionError("a body over the limit was served")


main(sys.argv[1])
print("all checks hold")

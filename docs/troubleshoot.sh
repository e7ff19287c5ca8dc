#!/usr/bin/env bash
# The troubleshooting runbook of docs/troubleshooting.md, to be run against any Model.
# It only reads, unless --restart asks for more. Needs kubectl and awk.
set -uo pipefail

usage() {
	cat <<'END'
Usage: troubleshoot.sh [options] MODEL [SECTION...]

Looks at a Model and at a Gateway that serves it, and says what is wrong and what to do
first. Exit code 0: nothing found; 1: something was, on lines that begin with "!";
2: it could not look.

  -n, --namespace NAMESPACE        of the Model (default: that of the current context)
  -g, --gateway [NAMESPACE/]NAME   that serves the Model (default: the only one of its namespace)
  -w, --window SECONDS             over which requests are counted (default: 15); 0: since
                                   the gateway pods began
      --restart                    section churn restarts the Model's engines and watches

Sections, all of them by default:
  baseline   the Model, its Service, endpoints and pods
  routing    outcomes, key sources and targets of the requests in the window
  churn      what changed among its replicas; with --restart, a restart under your traffic
  triage     why replicas are missing: pods, probes, endpoints, the gateway's view
  symptoms   the table of common symptoms, checked
  group      the service labels that the Model claims, and their other members
  coldstart  sleeping and waking, and who waits
  gateway    the Gateway, its pods and the routes to the Model
END
}

fail() { echo "troubleshoot.sh: $*" >&2; exit 2; }

all_sections="baseline routing churn triage symptoms group coldstart gateway"
namespace="" gateway="" window=15 restart="" model="" sections=""
while [ $# -gt 0 ]; do
	case $1 in
	-n | --namespace | -g | --gateway | -w | --window)
		[ $# -ge 2 ] || fail "$1 needs a value; see --help"
		case $1 in
		-n | --namespace) namespace=$2 ;;
		-g | --gateway) gateway=$2 ;;
		*) window=$2 ;;
		esac
		shift
		;;
	--restart) restart=yes ;;
	-h | --help) usage; exit 0 ;;
	-*) fail "unknown option $1; see --help" ;;
	*)
		if [ -z "$model" ]; then
			model=$1
		else
			[[ " $all_sections " == *" $1 "* ]] || fail "unknown section $1; there are: $all_sections"
			sections="$sections $1"
		fi
		;;
	esac
	shift
done
[ -n "$model" ] || { usage >&2; exit 2; }
[[ $window =~ ^[0-9]+$ ]] || fail "--window is $window; give whole seconds"
sections=${sections:-$all_sections}

# k runs kubectl in the Model's namespace, g in the Gateway's.
k() { kubectl -n "$namespace" "$@"; }
g() { kubectl -n "$gateway_namespace" "$@"; }
of_model() { k get model "$model" -o "jsonpath=$1" 2>/dev/null; }

[ -n "$namespace" ] || namespace=$(kubectl config view --minify -o 'jsonpath={..namespace}' 2>/dev/null)
namespace=${namespace:-default}
k get model "$model" -o name >/dev/null || fail "cannot read Model $namespace/$model: correct the name or --namespace"
if [ -z "$gateway" ]; then
	gateway=$(k get gateways -o 'jsonpath={.items[*].metadata.name}')
	case $(wc -w <<<"$gateway") in
	0) fail "there is no Gateway in namespace $namespace: name one by --gateway NAMESPACE/NAME" ;;
	1) ;;
	*) fail "there are several Gateways in namespace $namespace: choose one by --gateway: $gateway" ;;
	esac
fi
gateway_namespace=$namespace
[[ $gateway != */* ]] || { gateway_namespace=${gateway%%/*} gateway=${gateway#*/}; }
g get gateway "$gateway" -o name >/dev/null || fail "cannot read Gateway $gateway_namespace/$gateway: correct --gateway"

service=$(of_model '{.spec.serviceName}')
service=${service:-$model}
workload=$(of_model '{.spec.scaleTargetRef.kind}/{.spec.scaleTargetRef.name}')
[ "$workload" != / ] || workload=Deployment/$model
strategy=$(of_model '{.status.strategy}')
gateway_selector=gateway.networking.k8s.io/gateway-name=$gateway

found=0
title() { printf '\n== %s: %s\n' "$1" "$2"; }
tell() { sed 's/^/   /'; }
# finding says what is wrong, and what to do first.
finding() {
	printf '!  %s\n   -> %s\n' "$1" "$2"
	found=$((found + 1))
}

# --- metrics -----------------------------------------------------------------

work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT

# scrape FILE writes the metrics of all gateway pods, each line with its pod in front.
scrape() {
	local pod port
	: >"$1"
	while read -r pod port; do
		[ -n "$port" ] || continue
		if ! g get --raw "/api/v1/namespaces/$gateway_namespace/pods/$pod:$port/proxy/metrics" >"$work/pod" 2>"$work/error"; then
			echo "   the metrics of pod $pod cannot be read: $(head -1 "$work/error")"
			continue
		fi
		grep '^flexinfer_' "$work/pod" | sed "s/^/$pod /" >>"$1"
	done < <(g get pods -l "$gateway_selector" --field-selector status.phase=Running \
		-o 'jsonpath={range .items[*]}{.metadata.name}{" "}{.spec.containers[*].ports[?(@.name=="metrics")].containerPort}{"\n"}{end}')
}

# count BEFORE AFTER FAMILY BY [LABEL=VALUE...]: how much a metric grew, by one of its
# labels (by "" in all, by pod by gateway pod), as lines of number and label.
count() {
	local before=$1 after=$2 family=$3 by=$4
	shift 4
	awk -v family="$family" -v by="$by" -v wanted="$*" '
		function value(line, label) {
			if (label == "pod") return $1
			if (!match(line, "[{,]" label "=\"[^\"]*\"")) return ""
			return substr(line, RSTART + length(label) + 3, RLENGTH - length(label) - 4)
		}
		BEGIN { n = split(wanted, want, " ") }
		{
			name = $2; sub(/[{].*/, "", name)
			if (name != family) next
			for (i = 1; i <= n; i++) {
				split(want[i], pair, "=")
				if (value($0, pair[1]) != pair[2]) next
			}
			key = by == "" ? "all" : value($0, by)
			sum[key] += FILENAME == ARGV[1] ? -$NF : $NF
		}
		END { for (key in sum) printf "%d %s\n", (sum[key] > 0 ? sum[key] : 0), key }
	' "$before" "$after" | sort -rn
}

# grew counts over the window, now what a gauge says at its end.
grew() { count "$work/before" "$work/after" "$@"; }
now() { count /dev/null "$work/after" "$@"; }
number() { awk 'NR == 1 { n = $1 } END { print n + 0 }'; }
nonzero() { awk '$1 > 0'; }
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { if (b == 0) print "none"; else printf "%.3f\n", a / b }'; }
above() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a != "none" && a + 0 > b + 0) }'; }

measured=""
# measure takes the window, once.
measure() {
	[ -z "$measured" ] || return 0
	measured=yes
	: >"$work/before"
	if [ "$window" -gt 0 ]; then
		scrape "$work/before"
		echo "   counting requests for ${window}s"
		sleep "$window"
	fi
	scrape "$work/after"
}

decisions=flexinfer_proxy_routing_decisions_total
# fallback BEFORE AFTER: the share of decisions that found no replica by key.
fallback() {
	ratio "$(count "$1" "$2" $decisions "" "model=$model" outcome=service-fallback | number)" \
		"$(count "$1" "$2" $decisions "" "model=$model" | number)"
}

# endpoints are lines of address, ready, serving, terminating and pod.
endpoints() {
	k get endpointslices -l "kubernetes.io/service-name=$service" -o 'jsonpath={range .items[*].endpoints[*]}{.addresses[0]}{" ready="}{.conditions.ready}{" serving="}{.conditions.serving}{" terminating="}{.conditions.terminating}{" "}{.targetRef.name}{"\n"}{end}'
}
ready_endpoints() { endpoints | grep -c ' ready=true ' || true; }

pod_selector() {
	k get service "$service" -o go-template='{{range $k, $v := .spec.selector}}{{$k}}={{$v}},{{end}}' 2>/dev/null | sed 's/,$//'
}

# claims are the service labels of the Model, from its spec and the annotations.
claims() {
	{
		of_model '{.spec.serviceLabels[*]} {.metadata.annotations.flexinfer\.ai/service-labels} '
		k get service "$service" -o 'jsonpath={.metadata.annotations.flexinfer\.ai/service-labels}' 2>/dev/null
	} | tr ', ' '\n\n' | sort -u | tr '\n' ' '
}

# --- sections ----------------------------------------------------------------

section_baseline() {
	title 1 "baseline of Model $namespace/$model"
	k get models "$model" -o wide | tell
	echo "   annotations: routing=$(of_model '{.metadata.annotations.flexinfer\.ai/routing}') route-priority=$(of_model '{.metadata.annotations.flexinfer\.ai/route-priority}')"
	k get service "$service" -o wide 2>&1 | tell
	k get endpointslices -l "kubernetes.io/service-name=$service" 2>&1 | tell
	endpoints | tell
	local selector
	selector=$(pod_selector)
	[ -z "$selector" ] || k get pods -l "$selector" -o wide | tell
	while IFS='|' read -r type status message; do
		[ "$status" != False ] || finding "$type: $message" "mend it: kubectl describe model -n $namespace $model"
	done < <(of_model '{range .status.conditions[*]}{.type}{"|"}{.status}{"|"}{.message}{"\n"}{end}')
	local ready total phase
	ready=$(of_model '{.status.endpoints}') total=$(of_model '{.status.totalEndpoints}') phase=$(of_model '{.status.phase}')
	if [ "${ready:-0}" -lt "${total:-0}" ]; then
		finding "$ready of $total replicas are ready" "see why: section triage"
	elif [ "${ready:-0}" -eq 0 ] && [ "$phase" != Idle ]; then
		finding "no replica is ready, and the Model is $phase" "see why: section triage"
	fi
	if [ "$(ready_endpoints)" -ne "${ready:-0}" ]; then
		finding "$(ready_endpoints) endpoints are ready, and the Model's status says ${ready:-0}" "look again; if that stays, look at the controller: kubectl logs -n flexinfer-system deployment/flexinfer-controller"
	fi
}

section_routing() {
	title 2 "outcomes and key sources, strategy $strategy"
	measure
	echo "   requests by status:"
	grew flexinfer_proxy_requests_total status "model=$model" | nonzero | tell
	if [ "$strategy" = default ]; then
		echo "   the default strategy is the Service's own balancing: there are no decisions by key"
		return
	fi
	echo "   decisions by outcome:"
	grew $decisions outcome "model=$model" | nonzero | tell
	echo "   decisions by key source:"
	grew $decisions key_source "model=$model" | nonzero | tell
	echo "   decisions by target:"
	grew flexinfer_proxy_routing_target_hits_total target "model=$model" | nonzero | tell
	echo "   distinct keys by source:"
	now flexinfer_proxy_routing_key_cardinality key_source "model=$model" | nonzero | tell
	local share
	share=$(fallback "$work/before" "$work/after")
	echo "   fallback ratio: $share"
	if [ "$share" = none ]; then
		echo "   no requests in the window: send some, or count from the beginning by --window 0"
	elif above "$share" 0.05; then
		finding "$share of the requests went to the Service, not to a replica" "see section symptoms"
	fi
	local lines
	lines=$(g logs -l "$gateway_selector" --since=15m --tail=-1 --max-log-requests=50 2>/dev/null | grep -E 'routing (to pod|fallback to service)' | grep -E "model(=|\":\")$model[\" ]")
	if [ -n "$lines" ]; then
		echo "   the last decisions in the logs, of $(wc -l <<<"$lines") in 15 minutes:"
		tail -5 <<<"$lines" | tell
	else
		echo "   no decisions in the logs of 15 minutes: they are there with spec.proxy.log.level: debug in the Gateway's GatewayParameters"
	fi
}

section_churn() {
	title 3 "changes of replicas"
	measure
	echo "   replicas that came and went in the window, in the eyes of all gateway pods together:"
	grew flexinfer_proxy_endpoint_changes_total change_type "model=$model" | tell
	k rollout status "$workload" --watch=false 2>&1 | tell
	if [ -z "$restart" ]; then
		echo "   with --restart, the engines are restarted here while your traffic runs"
		return
	fi
	local before during after
	before=$(fallback "$work/before" "$work/after")
	scrape "$work/begin"
	k rollout restart "$workload" 2>&1 | tell
	k rollout status "$workload" --timeout=10m 2>&1 | tail -1 | tell
	scrape "$work/end"
	during=$(fallback "$work/begin" "$work/end")
	sleep "$((window > 0 ? window : 15))"
	scrape "$work/later"
	after=$(fallback "$work/end" "$work/later")
	echo "   fallback ratio before $before, during $during, after $after; more during a rollout is no fault"
	echo "   answers other than 2xx during and after the restart:"
	count "$work/begin" "$work/later" flexinfer_proxy_requests_total status "model=$model" | nonzero | awk '$2 !~ /^2/' | tell
	if above "$after" "${before/none/0}" && above "$after" 0.05; then
		finding "the fallback ratio did not return: $before before, $after after" "see section triage"
	fi
}

section_triage() {
	title 4 "why replicas are missing"
	k get "$workload" -o wide 2>&1 | tell
	k describe "$workload" 2>/dev/null | awk '/^Conditions:/ { on = 1 } on' | tell
	echo "   endpoints:"
	endpoints | tell
	local selector
	selector=$(pod_selector)
	if [ -n "$selector" ]; then
		while read -r pod ready restarts reason; do
			[ -n "$pod" ] || continue
			[ "$ready" = true ] || finding "pod $pod is not ready ${reason:+($reason)}" "kubectl describe pod -n $namespace $pod; kubectl logs -n $namespace $pod"
			[ "${restarts:-0}" -lt 3 ] 2>/dev/null || finding "pod $pod restarted $restarts times" "kubectl logs -n $namespace $pod --previous"
		done < <(k get pods -l "$selector" -o 'jsonpath={range .items[*]}{.metadata.name}{" "}{.status.containerStatuses[0].ready}{" "}{.status.containerStatuses[0].restartCount}{" "}{.status.containerStatuses[0].state.waiting.reason}{"\n"}{end}')
		echo "   warnings about its pods:"
		local pods
		pods=$(k get pods -l "$selector" -o 'jsonpath={range .items[*]}{.metadata.name}{"\n"}{end}')
		[ -z "$pods" ] || k get events --field-selector type=Warning,involvedObject.kind=Pod -o 'jsonpath={range .items[*]}{.lastTimestamp}{" "}{.involvedObject.name}{" "}{.reason}{": "}{.message}{"\n"}{end}' |
			grep -F "$pods" | sort | tail -5 | tell
	fi
	measure
	echo "   replicas in use, by gateway pod:"
	now flexinfer_proxy_endpoint_count pod "model=$model" | tell
	local want
	want=$(ready_endpoints)
	while read -r n pod; do
		[ "$n" -eq "$want" ] || finding "gateway pod $pod uses $n of $want ready endpoints" "see section gateway: it may have no connection to the controller"
	done < <(now flexinfer_proxy_endpoint_count pod "model=$model")
	while read -r _ target; do
		finding "replica $target is passed over, because it fails" "kubectl logs of the pod with that address, and its readiness probe: it is Ready and does not serve"
	done < <(now flexinfer_proxy_endpoint_passed_over target "model=$model" | nonzero)
	while read -r n source; do
		finding "$n keys of source $source were malformed and left out" "send 1 to 128 of the characters A-Z a-z 0-9 . _ : / = -"
	done < <(grew flexinfer_proxy_routing_malformed_keys_total key_source "model=$model" | nonzero)
	[ -n "$(of_model '{.metadata.annotations.flexinfer\.ai/routing}')" ] ||
		[ -n "$(k get service "$service" -o 'jsonpath={.metadata.annotations.flexinfer\.ai/routing}' 2>/dev/null)" ] ||
		echo "   neither the Model nor its Service has the annotation flexinfer.ai/routing: the strategy is the default"
}

section_symptoms() {
	title 5 "common symptoms"
	measure
	local share changes malformed overflow none total
	share=$(fallback "$work/before" "$work/after")
	changes=$(grew flexinfer_proxy_endpoint_changes_total "" "model=$model" | number)
	malformed=$(grew flexinfer_proxy_routing_malformed_keys_total "" "model=$model" | number)
	overflow=$(grew flexinfer_proxy_routing_key_cardinality_overflow_total "" "model=$model" | number)
	none=$(grew $decisions "" "model=$model" key_source=none | number)
	total=$(grew $decisions "" "model=$model" | number)
	printf '   %-46s %s\n' "fallback ratio" "$share" "replicas that came or went" "$changes" \
		"malformed explicit keys" "$malformed" "requests without any key" "$none of $total" "keys beyond the tracker's cap" "$overflow"
	if above "$share" 0.05 && [ "$(ready_endpoints)" -eq 0 ]; then
		finding "high fallback ratio: no endpoint is ready" "verify the readiness of pods: section triage"
	elif above "$share" 0.05; then
		finding "high fallback ratio, though endpoints are ready: requests carry no key" "send one: a header, cache_key, or a system prompt (docs/routing.md)"
	fi
	[ "$changes" -eq 0 ] || finding "targets change: $changes replicas came or went" "check for a rollout in progress or restarts: sections churn and triage"
	case $strategy in
	prefix | session-affinity)
		if [ "$total" -gt 0 ] && above "$(ratio $((malformed + none)) "$total")" 0.2; then
			finding "requests route like at random: $none of $total had no key, $malformed a malformed one" "validate the keys, and the system and document fields of the requests"
		fi
		;;
	esac
	[ "$overflow" -eq 0 ] || finding "more distinct keys than are counted: $overflow beyond the cap" "look for clients that put noise into keys; tighten spec.proxy.routing.explicitKeyMaxLength, systemSegmentMaxLength or documentSegmentMaxLength of the GatewayParameters"
}

section_group() {
	title 6 "service labels"
	local labels label
	labels=$(claims)
	if [ -z "${labels// /}" ]; then
		echo "   the Model claims none"
		return
	fi
	measure
	echo "   Models of the namespace, and what they claim:"
	k get models -o 'custom-columns=NAME:.metadata.name,LABELS:.spec.serviceLabels,PRIORITY:.metadata.annotations.flexinfer\.ai/route-priority,READY:.status.ready,PHASE:.status.phase' | tell
	for label in $labels; do
		echo "   label $label, picks by outcome:"
		grew flexinfer_proxy_label_group_route_decisions_total outcome "label=$label" | nonzero | tell
		echo "   label $label, picks by Model:"
		grew flexinfer_proxy_label_group_route_target_hits_total model "label=$label" | nonzero | tell
		local missed
		missed=$(grew flexinfer_proxy_label_group_route_decisions_total "" "label=$label" outcome=fallback_no_ready | number)
		[ "$missed" -eq 0 ] || finding "$missed requests for $label found no Ready member" "bring one back: kubectl get models -n $namespace"
	done
}

section_coldstart() {
	title 7 "sleeping and waking"
	if [ -z "$(of_model '{.spec.serverless}')" ] || [ "$(of_model '{.spec.serverless.enabled}')" = false ]; then
		echo "   the Model has no spec.serverless: it neither sleeps nor wakes"
		return
	fi
	measure
	echo "   policy: $(of_model '{.spec.serverless}')"
	echo "   phase $(of_model '{.status.phase}'), last active $(of_model '{.status.lastActiveTime}')"
	k get "$workload" 2>&1 | tell
	echo "   requests that wait, by gateway pod:"
	now flexinfer_proxy_queue_depth pod "model=$model" | tell
	local rejected waiting
	waiting=$(now flexinfer_proxy_queue_depth "" "model=$model" | number)
	rejected=$(grew flexinfer_proxy_queue_rejected_total "" "model=$model" | number)
	echo "   in the window: $(grew flexinfer_proxy_queue_wait_duration_seconds_count "" "model=$model" | number) ceased to wait, $rejected found the queue full"
	[ "$rejected" -eq 0 ] || finding "$rejected requests found the queue full" "let more wait: spec.proxy.maxQueueSize of the GatewayParameters; or keep a replica: spec.serverless.minReplicas"
	[ "$waiting" -eq 0 ] || finding "$waiting requests wait for a replica" "see why none is ready: section triage"
}

section_gateway() {
	title 8 "Gateway $gateway_namespace/$gateway"
	g get gateway "$gateway" | tell
	g get pods -l "$gateway_selector" -o wide | tell
	while IFS='|' read -r type status message; do
		[ "$status" != False ] || finding "Gateway, $type: $message" "kubectl describe gateway -n $gateway_namespace $gateway"
	done < <(g get gateway "$gateway" -o 'jsonpath={range .status.conditions[*]}{.type}{"|"}{.status}{"|"}{.message}{"\n"}{end}')
	# A backendRef without a namespace means that of its route.
	local names="" name
	for name in $model $(claims); do names+=" $namespace/$name "; done
	echo "   routes that name the Model or a label of its:"
	local any=""
	while IFS='|' read -r route backends conditions; do
		local hit="" b
		for b in $backends; do
			[[ $b != /* ]] || b=${route%%/*}$b
			[[ $names != *" $b "* ]] || hit=yes
		done
		[ -n "$hit" ] || continue
		any=yes
		echo "   HTTPRoute $route: $conditions"
		[[ $conditions != *=False* ]] || finding "HTTPRoute $route is not served as a whole: $conditions" "kubectl describe httproute -n ${route%%/*} ${route#*/}"
	done < <(kubectl get httproutes -A -o 'jsonpath={range .items[*]}{.metadata.namespace}/{.metadata.name}{"|"}{range .spec.rules[*].backendRefs[?(@.kind=="Model")]}{.namespace}/{.name}{" "}{end}{"|"}{range .status.parents[*].conditions[*]}{.type}={.status}{" "}{end}{"\n"}{end}')
	[ -n "$any" ] || finding "no HTTPRoute names the Model" "add a backendRef of kind Model and name $model to one"
	measure
	echo "   seconds since each gateway pod took up its configuration:"
	now flexinfer_proxy_snapshot_age_seconds pod | tell
	while read -r n pod; do
		[ "$n" -eq 1 ] || finding "gateway pod $pod has no connection to the controller: it serves what it last heard" "kubectl get pods -n flexinfer-system; kubectl logs -n $gateway_namespace $pod"
	done < <(now flexinfer_proxy_controller_connected pod)
}

for section in $sections; do "section_$section"; done
if [ "$found" -gt 0 ]; then
	printf '\n%s found, on the lines that begin with "!"\n' "$found"
	exit 1
fi
printf '\nnothing found\n'

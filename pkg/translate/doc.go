// Package translate turns Kubernetes objects into what the data plane serves
// and into the statuses that tell users what became of their objects.
//
//	Resources ─ Translate ─► Result{ Configs, statuses, Warnings }
//	files ─ Decoder ─► Resources, Problems
//
// Translate is a pure function of its two arguments. It reads no clock (the time
// of condition changes is Options.Now), calls no API, logs nothing, starts no
// goroutine and keeps no state but verdicts on texts, which follow from the text
// alone (verdicts.go): the same input gives the same Result, byte for byte,
// whatever the order of the objects in it. It only reads its input, so one input
// may be translated by several goroutines at once.
//
// A user's mistake is never an error. It becomes a condition with the reason
// that the Gateway API defines and a message that says what is wrong and how to
// mend it, and the same text as a Warning with the path of the field. It never
// harms another object: what is sound is served, what is not is left out, and
// requests that a broken rule or reference would have had get a 500, so that
// they do not slip past a filter that failed. What Translate puts into a Config
// is what routing.Compile takes.
//
// Stages, in the order of Translate (translate.go), one file each:
//
//	gatewayclass  which classes are ours
//	model         Models, with their Service, port, replicas, annotations, names
//	labelgroup    the groups that Models form by the service labels they claim
//	gateway       Gateways and listeners: protocols, conflicts, certificates
//	route         rules: matches, filters, backendRefs, timeouts, retries
//	parent        which listeners take which route, for which hostnames
//	config        one routing.Config for each Gateway, with only what it needs
//	*status       the statuses, merged into what the objects hold
//
// Statuses are complete and merged: conditions of types and parent entries of
// controllers that are not ours stay byte for byte and in their place, a
// transition time moves only with its status, every own condition carries the
// object's generation. Writing them and translating again changes nothing.
//
// Ties are resolved as the Gateway API says: older first, then namespace and
// name (precedence.go). Ranking matches is the data plane's work; rules and
// attachments reach it in their order, with the hostnames as written.
//
// Decoder reads YAML files strictly, fills in the API server's defaults and
// refuses what it would refuse (complete*.go), so that Translate may expect the
// same objects from files as from a cluster. Where the two differ, the code says
// so: files may hold loopback endpoints, and listeners that conflict with each
// other are left to Translate, which serves the rest of their Gateway.
//
// Private keys are in Config.Certificates and nowhere else: no status, Warning
// or Problem shows the contents of a Secret.
//
// Goldens in testdata show each rule: conformance holds one archive for each
// test of the Gateway API's suite that has a meaning here, under its ShortName,
// cases holds our own, decode what files may and may not hold. `go test -update`
// rewrites their outputs.
package translate

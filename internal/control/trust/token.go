package trust

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"flexinfer.ai/gateway/pkg/publish"
)

// maxToken bounds a token's length; ServiceAccount tokens have 1 to 2 kB.
const maxToken = 16 << 10

// Account is a ServiceAccount.
type Account struct{ Namespace, Name string }

// String is "namespace/name".
func (a Account) String() string { return a.Namespace + "/" + a.Name }

// accountPrefix begins a ServiceAccount's user name.
const accountPrefix = "system:serviceaccount:"

func parseAccount(user string) (Account, bool) {
	rest, ok := strings.CutPrefix(user, accountPrefix)
	namespace, name, found := strings.Cut(rest, ":")
	return Account{namespace, name}, ok && found && namespace != "" && name != ""
}

// audiences is the claim aud: a string or a list of them.
type audiences []string

// UnmarshalJSON reads either form.
func (a *audiences) UnmarshalJSON(raw []byte) error {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		*a = audiences{one}
		return nil
	}
	return json.Unmarshal(raw, (*[]string)(a))
}

// claims are what a token says of itself, unverified.
type claims struct {
	Subject   string    `json:"sub"`
	Audiences audiences `json:"aud"`
	Expires   float64   `json:"exp"` // seconds since 1970
}

// readClaims reads a token without verifying it: enough to refuse what cannot be
// good without asking the API server, and for nothing else.
func readClaims(token string) (claims, bool) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return claims{}, false
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return claims{}, false
	}
	var c claims
	return c, json.Unmarshal(raw, &c) == nil
}

// claimed is the ServiceAccount that a token claims to be of; else why it
// cannot be a good one.
func claimed(token string, now time.Time) (Account, *Refusal) {
	if token == "" {
		return Account{}, refuse("no token was sent: a gateway pod sends that of its projected volume, audience %s", Audience)
	}
	if len(token) > maxToken {
		return Account{}, refuse("the token has %d bytes, no ServiceAccount token has more than %d", len(token), maxToken)
	}
	c, ok := readClaims(token)
	account, isAccount := parseAccount(c.Subject)
	switch {
	case !ok || !isAccount:
		return Account{}, refuse("what was sent is no ServiceAccount token")
	case !slices.Contains(c.Audiences, Audience):
		return Account{}, refuse("the token of ServiceAccount %s is for other audiences than %s", account, Audience)
	case c.Expires > 0 && now.Unix() > int64(c.Expires):
		return Account{}, refuse("the token of ServiceAccount %s has expired", account)
	}
	return account, nil
}

// Refusal says why a token gives no identity. It never holds any part of the
// token.
type Refusal struct{ Reason string }

// Error is the reason.
func (r *Refusal) Error() string { return r.Reason }

// Is says that asking again with the same token is of no use.
func (r *Refusal) Is(target error) bool { return target == publish.ErrUnauthenticated }

func refuse(format string, args ...any) *Refusal { return &Refusal{fmt.Sprintf(format, args...)} }

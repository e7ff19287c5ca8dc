package routing

import "testing"

func TestCanonicalPath(t *testing.T) {
	f := func(path, want string) {
		t.Helper()
		if IsCanonicalPath([]byte(path)) != (path == want) {
			// A path with a leading dot in a segment takes the slow way although
			// it may be canonical already.
			if path != want || IsCanonicalPath([]byte(path)) {
				t.Errorf("IsCanonicalPath(%q) = %v", path, IsCanonicalPath([]byte(path)))
			}
		}
		got, err := AppendCanonicalPath([]byte("kept"), []byte(path))
		if err != nil {
			t.Errorf("%q: %v", path, err)
		} else if string(got) != "kept"+want {
			t.Errorf("%q becomes %q, want %q", path, got[4:], want)
		}
	}
	f("/", "/")
	f("/a/b", "/a/b")
	f("/a//b", "/a//b")
	f("/a/./b", "/a/b")
	f("/a/../b", "/b")
	f("/a/..", "/")
	f("/a/.", "/a/")
	f("/..", "/")
	f("/../../a", "/a")
	f("/a/b/../../c", "/c")
	f("/a//../b", "/a/b")
	f("/.hidden", "/.hidden")
	f("/...", "/...")
	f("/%61", "/a")
	f("/%2e%2E/a", "/a")
	f("/a%2fb", "/a%2Fb")
	f("/a%2f../b", "/a%2F../b")
	f("/a%2f%2e%2e/b", "/a%2F../b")
	f("/%7euser", "/~user")
	f("/a|b", "/a%7Cb")
	f("/\xc3\xa9", "/%C3%A9")
	f("/%c3%a9", "/%C3%A9")
	f("/a%252fb", "/a%252fb")
	f("/a\\..\\b", "/a%5C..%5Cb")
}

func TestPathWithoutCanonicalForm(t *testing.T) {
	f := func(path string, want error) {
		t.Helper()
		if _, err := AppendCanonicalPath(nil, []byte(path)); err != want {
			t.Errorf("%q: %v, want %v", path, err, want)
		}
	}
	f("/%", ErrPathEscape)
	f("/%4", ErrPathEscape)
	f("/%4g", ErrPathEscape)
	f("/%00", ErrPathNUL)
}

// TestMatchPathSpellings: a route's path takes the request whichever way either
// is spelt.
func TestMatchPathSpellings(t *testing.T) {
	f := func(kind PathType, path, request string) {
		t.Helper()
		canonical, err := AppendCanonicalPath(nil, []byte(request))
		if err != nil {
			t.Fatal(err)
		}
		m := rulesOf(t, Match{PathType: kind, Path: path}).Match(&Request{Method: []byte("GET"), Path: canonical})
		if m == nil {
			t.Errorf("%s %q does not take %q", kind, path, request)
		}
	}
	for _, kind := range []PathType{PathExact, PathPrefix} {
		f(kind, "/caf%c3%a9", "/caf%C3%A9")
		f(kind, "/caf%C3%A9", "/caf%c3%a9")
		f(kind, "/café", "/caf%c3%a9")
		f(kind, "/%7euser/%61", "/~user/a")
		f(kind, "/~user/a", "/%7Euser/%61")
	}
	f(PathPrefix, "/caf%c3%a9/", "/caf%C3%A9/x")
}

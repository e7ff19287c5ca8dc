package routing

const (
	// maxOpening is the most messages that a conversation's opening has.
	maxOpening = 5
	// maxSystemSpans is how many system messages are recorded by place; what
	// further ones say is hashed while it is read.
	maxSystemSpans = 16
)

// conversation is what keys need of an array of messages.
type conversation struct {
	opening     [maxOpening]message
	openingLen  int
	openingDone bool // the first message of the user is in
	system      [maxSystemSpans]jsonSpan
	systemLen   int
	further     partHasher // of system segments beyond system
	hasFurther  bool
}

// message is one message or Responses item.
type message struct {
	whole   jsonSpan
	role    jsonSpan
	content jsonSpan
}

func (c *conversation) reset() {
	c.openingLen, c.openingDone = 0, false
	c.systemLen, c.hasFurther = 0, false
}

// role is a message's role as far as keys tell roles apart.
type role uint8

const (
	roleOther role = iota
	roleUser
	roleSystem
	roleDeveloper
)

var roleNames = [...]string{roleUser: "user", roleSystem: "system", roleDeveloper: "developer"}

// conversation reads the array of messages at i. Elements that are no objects
// are no messages.
func (f *Facts) conversation(c *conversation, i int, o *KeyOptions) int {
	c.reset()
	i, more := f.scan.first(i)
	for more {
		if i >= len(f.body) || f.body[i] != '{' {
			i = f.scan.value(i, 2)
		} else {
			m := message{whole: jsonSpan{start: i}}
			if i = f.message(&m, i); i >= 0 {
				m.whole.end = i
				f.addMessage(c, &m, o)
			}
		}
		if i < 0 {
			return -1
		}
		i, more = f.scan.next(i, ']')
	}
	return i
}

// message reads the object at i.
func (f *Facts) message(m *message, i int) int {
	i, more := f.scan.first(i)
	for more {
		nameStart := i + 1
		nameEnd, start := f.scan.member(i)
		if start < 0 {
			return -1
		}
		if i = f.scan.value(start, 3); i < 0 {
			return -1
		}
		switch string(f.name(nameStart, nameEnd)) {
		case "role":
			m.role = jsonSpan{start, i}
		case "content":
			m.content = jsonSpan{start, i}
		}
		i, more = f.scan.next(i, '}')
	}
	return i
}

// addMessage records what keys may need of m.
func (f *Facts) addMessage(c *conversation, m *message, o *KeyOptions) {
	r := f.roleOf(m.role)
	if !c.openingDone && c.openingLen < maxOpening {
		c.opening[c.openingLen] = *m
		c.openingLen++
		c.openingDone = r == roleUser
	}
	if r != roleSystem && r != roleDeveloper {
		return
	}
	if c.systemLen < maxSystemSpans {
		c.system[c.systemLen] = m.content
		c.systemLen++
		return
	}
	if !f.normalizeContent(m.content, o.SystemSegmentMaxLength) {
		return
	}
	if !c.hasFurther {
		c.hasFurther = true
		c.further.reset()
	}
	c.further.write(f.norm.dst)
	c.further.end(tagSystem)
}

// roleOf compares without case.
func (f *Facts) roleOf(v jsonSpan) role {
	if f.kindOf(v) != '"' {
		return roleOther
	}
	t := f.inside(v)
	for r := roleUser; r <= roleDeveloper; r++ {
		if string(t) == roleNames[r] || t.equalFold(roleNames[r]) {
			return r
		}
	}
	return roleOther
}

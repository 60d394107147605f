package recording

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/flink-lineage/flink-lineage-exporter/internal/lineage"
)

// masked replaces a secret, as Flink itself masks some.
const masked = "******"

// Strip removes secrets in place: credentials in URLs, values of options whose names look secret, JVM and program arguments such as
// -Dx.password=..., Authorization headers and well-known kinds of tokens in any text. A secret found in one place is then masked wherever
// else it stands as a word of its own, in reporters' labels too.
func Strip(r *Recording) {
	s := &stripper{secrets: map[string]bool{}}
	r.Scenario = s.text(r.Scenario)
	r.Note = s.text(r.Note)
	for i := range r.JobManagers {
		jm := &r.JobManagers[i]
		jm.URL = s.url(jm.URL)
		for path, resp := range jm.Responses {
			jm.Responses[path] = Response{Status: resp.Status, Body: s.body(path, resp.Body)}
		}
	}
	for i := range r.TaskManagers {
		tm := &r.TaskManagers[i]
		tm.MetricsURL = s.url(tm.MetricsURL)
		tm.Metrics = s.text(tm.Metrics)
	}
	s.maskEverywhere(r)
}

// secretParts make the name of an option look secret wherever they stand in it. Flink masks a few of these by itself.
var secretParts = []string{
	"password", "passwd", "passphrase", "secret", "token", "credential", "apikey", "authparams", "basicauth", "jaas", "httpheaders",
	"authorization", "cookie", "accesskey", "accountkey", "privatekey", "servicekey", "encryptionkey", "signature",
}

// secretWords do so only as whole words of the name, as in s3.access-key and unlike in keyed or monkey.
var secretWords = map[string]bool{"key": true, "keys": true, "pwd": true, "pass": true, "auth": true, "sig": true}

// hints stand, in lower case, in every text with the name of an option that looks secret, in whatever way it is written. Most texts have
// none and need no closer look.
var hints = []string{
	"pass", "pwd", "secret", "token", "credential", "key", "auth", "jaas", "header", "cookie", "sig", "bearer",
}

func hasHint(t string) bool {
	lower := strings.ToLower(t)
	return slices.ContainsFunc(hints, func(hint string) bool { return strings.Contains(lower, hint) })
}

// looksSecret is whether the value of an option of this name may be a secret.
func looksSecret(name string) bool {
	words := nameWords(name)
	joined := strings.Join(words, "")
	for _, part := range secretParts {
		if strings.Contains(joined, part) {
			return true
		}
	}
	return slices.ContainsFunc(words, func(w string) bool { return secretWords[w] })
}

// nameWords splits the name of an option at punctuation and where camel case begins a new word, all in lower case.
func nameWords(name string) []string {
	var words []string
	var word strings.Builder
	end := func() {
		if word.Len() > 0 {
			words = append(words, strings.ToLower(word.String()))
			word.Reset()
		}
	}
	lower := false
	for _, c := range name {
		if !unicode.IsLetter(c) && !unicode.IsDigit(c) {
			end()
			lower = false
			continue
		}
		if lower && unicode.IsUpper(c) {
			end()
		}
		lower = unicode.IsLower(c)
		word.WriteRune(c)
	}
	end()
	return words
}

var (
	// Credentials before the host of a URL. The last @ before the path ends them: a password may hold one.
	userinfoPattern = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)([^\s/"'<>?#\\]+)@`)
	// Oracle's form has them before the host without slashes.
	oraclePattern = regexp.MustCompile(`(jdbc:oracle:[a-z0-9]+:)([^\s@"']+)@`)
	// name=value, "name":"value" and name="value", in text, in JSON within a text, in a query or in a JAAS entry.
	assignmentPattern = regexp.MustCompile(`([\w.$-]+)(\\?["']?\s*=\s*|\\?["']\s*:\s*)(\\?"(?:[^"\\]|\\[^"])*\\?"|'[^']*'|[^\s"'&;,)\]}<>\\]+)`)
	// --name value, as in the program arguments that Flink keeps in $internal.application.program-args, separated by semicolons.
	argumentPattern = regexp.MustCompile(`((?:^|[\s;,"'\[])--?[A-Za-z][\w.-]*)([\s;,]+)("[^"]*"|'[^']*'|[^\s;,"'-][^\s;,"']*)`)
	headerPattern   = regexp.MustCompile(`(?i)\b((?:proxy-)?authorization|(?:set-)?cookie|x-api-key|x-auth-token)(\s*[:=]\s*)([^\r\n"'\\]+)`)
	bearerPattern   = regexp.MustCompile(`(?i)\b(bearer\s+)([A-Za-z0-9._~+/=-]{16,})`)
	// Kinds of tokens that are known by their form: AWS access keys, JSON web tokens.
	awsPattern = regexp.MustCompile(`\b(?:AKIA|ASIA)[0-9A-Z]{16}\b`)
	jwtPattern = regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+`)
	pemPattern = regexp.MustCompile(`(?s)(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(-----END [A-Z ]*PRIVATE KEY-----|$)`)
)

// nameSchemes are those whose text before the @ is no credential but a name that the address needs: an actor system, a container.
var nameSchemes = []string{"akka", "pekko", "abfs", "wasb"}

// stripper masks secrets and remembers them.
type stripper struct {
	secrets map[string]bool
}

// mask returns what stands for a secret, and remembers it.
func (s *stripper) mask(secret string) string {
	secret = strings.Trim(secret, `"'\`)
	if secret == "" || secret == masked {
		return secret
	}
	s.secrets[secret] = true
	return masked
}

// url removes the credentials of an address and masks secrets in its query.
func (s *stripper) url(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.User == nil {
		return s.text(address)
	}
	if password, ok := u.User.Password(); ok {
		s.mask(password)
	} else {
		s.mask(u.User.Username())
	}
	u.User = nil
	return s.text(u.String())
}

// text masks secrets in any text.
func (s *stripper) text(t string) string {
	if strings.Contains(t, "@") {
		t = replaceGroups(userinfoPattern, t, func(g []string) string {
			for _, scheme := range nameSchemes {
				if strings.HasPrefix(g[1], scheme) {
					return g[0]
				}
			}
			if _, password, ok := strings.Cut(g[2], ":"); ok {
				s.mask(password)
			} else {
				s.mask(g[2])
			}
			return g[1]
		})
		t = replaceGroups(oraclePattern, t, func(g []string) string {
			_, password, _ := strings.Cut(g[2], "/")
			s.mask(password)
			return g[1] + masked + "@"
		})
	}
	if strings.Contains(t, "PRIVATE KEY") {
		t = replaceGroups(pemPattern, t, func(g []string) string { return g[1] + masked + g[2] })
	}
	// Most texts hold nothing of the kind, and patterns are slow.
	if strings.Contains(t, "AKIA") || strings.Contains(t, "ASIA") {
		t = awsPattern.ReplaceAllStringFunc(t, s.mask)
	}
	if strings.Contains(t, "eyJ") {
		t = jwtPattern.ReplaceAllStringFunc(t, s.mask)
	}
	if !hasHint(t) {
		return t
	}
	// A stack trace or a reporter's answer has thousands of lines, and a hint in few.
	lines := strings.SplitAfter(t, "\n")
	for i, line := range lines {
		if hasHint(line) {
			lines[i] = s.line(line)
		}
	}
	return strings.Join(lines, "")
}

// line masks the values of what looks secret by its name.
func (s *stripper) line(t string) string {
	t = replaceGroups(headerPattern, t, func(g []string) string { return g[1] + g[2] + s.mask(strings.TrimSpace(g[3])) })
	t = replaceGroups(bearerPattern, t, func(g []string) string { return g[1] + s.mask(g[2]) })
	t = replaceGroups(assignmentPattern, t, func(g []string) string {
		if !looksSecret(g[1]) || harmless(strings.Trim(g[3], `"'\`)) {
			return g[0]
		}
		return g[1] + g[2] + s.quoted(g[3])
	})
	return replaceGroups(argumentPattern, t, func(g []string) string {
		if !looksSecret(g[1]) || harmless(g[3]) {
			return g[0]
		}
		return g[1] + g[2] + s.quoted(g[3])
	})
}

// quoted masks a value and keeps the quotes around it.
func (s *stripper) quoted(value string) string {
	inner := strings.Trim(value, `"'\`)
	if inner == "" {
		return value
	}
	return strings.Replace(value, inner, s.mask(inner), 1)
}

// harmless is whether a value is none that anybody keeps secret.
func harmless(value string) bool {
	switch strings.ToLower(value) {
	case "", "true", "false", "null", "none", masked:
		return true
	}
	return false
}

// body masks secrets in an answer.
func (s *stripper) body(path string, body json.RawMessage) json.RawMessage {
	v, err := decode(body)
	if err != nil {
		return body
	}
	out, err := encode(s.value(v, strings.HasSuffix(path, "/config")))
	if err != nil {
		return body
	}
	return out
}

// value masks secrets in a decoded answer. In options, the members of an object are options or it is one of a list with key and value.
func (s *stripper) value(v any, options bool) any {
	switch v := v.(type) {
	case string:
		return s.text(v)
	case []any:
		for i := range v {
			v[i] = s.value(v[i], options)
		}
	case map[string]any:
		name, isName := v["key"].(string)
		for key, member := range v {
			secret := options && looksSecret(key) && key != "key" || options && isName && key == "value" && looksSecret(name)
			if value, ok := member.(string); ok && secret && !harmless(value) {
				v[key] = s.mask(value)
				continue
			}
			v[key] = s.value(member, options)
		}
	}
	return v
}

// maskEverywhere masks the secrets that were found wherever they stand alone. Short ones and numbers are left: they are likely to be
// something else too, and a recording that lost its numbers is of no use.
func (s *stripper) maskEverywhere(r *Recording) {
	var secrets []string
	for secret := range s.secrets {
		if len(secret) >= 6 && strings.Trim(secret, "0123456789.") != "" {
			secrets = append(secrets, secret)
		}
	}
	if len(secrets) == 0 {
		return
	}
	raw := newWords()
	sanitised := newWords()
	// What surrounds a name may have become an underscore.
	sanitised.underscores = false
	for _, secret := range secrets {
		raw.add(secret, masked)
		sanitised.add(secret, masked)
		sanitised.add(lineage.Sanitize(secret), lineage.Sanitize(masked))
	}
	r.Scenario = raw.replace(r.Scenario)
	r.Note = raw.replace(r.Note)
	for _, jm := range r.JobManagers {
		for path, resp := range jm.Responses {
			if v, err := decode(resp.Body); err == nil {
				if body, err := encode(mapStrings(v, raw.replace)); err == nil {
					jm.Responses[path] = Response{Status: resp.Status, Body: body}
				}
			}
		}
	}
	for i := range r.TaskManagers {
		r.TaskManagers[i].Metrics = sanitised.replace(r.TaskManagers[i].Metrics)
	}
}

// mapStrings replaces every string of a decoded answer, but not the keys of objects.
func mapStrings(v any, f func(string) string) any {
	switch v := v.(type) {
	case string:
		return f(v)
	case []any:
		for i := range v {
			v[i] = mapStrings(v[i], f)
		}
	case map[string]any:
		for key := range v {
			v[key] = mapStrings(v[key], f)
		}
	}
	return v
}

// isWord is whether a byte is an ASCII letter, a digit or an underscore.
func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
}

// replaceGroups replaces each match of a pattern by what f makes of the match and its groups.
func replaceGroups(pattern *regexp.Regexp, t string, f func(groups []string) string) string {
	matches := pattern.FindAllStringSubmatchIndex(t, -1)
	if matches == nil {
		return t
	}
	var out strings.Builder
	end := 0
	for _, m := range matches {
		groups := make([]string, len(m)/2)
		for i := range groups {
			if m[2*i] >= 0 {
				groups[i] = t[m[2*i]:m[2*i+1]]
			}
		}
		out.WriteString(t[end:m[0]])
		out.WriteString(f(groups))
		end = m[1]
	}
	out.WriteString(t[end:])
	return out.String()
}

// words replaces texts where they stand as words of their own, the longest first.
type words struct {
	replacement map[string]string
	// byFirst has the texts by their first byte, the longest first; nil until it is needed.
	byFirst map[byte][]string
	// underscores is whether an underscore goes on with a word.
	underscores bool
}

func newWords() *words {
	return &words{replacement: map[string]string{}, underscores: true}
}

func (w *words) add(text, replacement string) {
	if _, ok := w.replacement[text]; !ok && text != "" {
		w.replacement[text] = replacement
		w.byFirst = nil
	}
}

// replace replaces every text in t that neither continues a word before it nor goes on in one after it.
func (w *words) replace(t string) string {
	if w.byFirst == nil {
		w.byFirst = map[byte][]string{}
		for text := range w.replacement {
			w.byFirst[text[0]] = append(w.byFirst[text[0]], text)
		}
		for _, texts := range w.byFirst {
			slices.SortFunc(texts, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
		}
	}
	var out bytes.Buffer
	end := 0
	for i := 0; i < len(t); i++ {
		for _, text := range w.byFirst[t[i]] {
			if strings.HasPrefix(t[i:], text) && w.standsAlone(t, i, i+len(text)) {
				out.WriteString(t[end:i])
				out.WriteString(w.replacement[text])
				end = i + len(text)
				i = end - 1
				break
			}
		}
	}
	if end == 0 {
		return t
	}
	out.WriteString(t[end:])
	return out.String()
}

// standsAlone is whether t[from:to] has ends of words at both sides.
func (w *words) standsAlone(t string, from, to int) bool {
	return (from == 0 || !w.joins(t[from-1], t[from])) && (to == len(t) || !w.joins(t[to-1], t[to]))
}

// joins is whether two neighbours are within one word.
func (w *words) joins(a, b byte) bool {
	return isWord(a) && isWord(b) && (w.underscores || a != '_' && b != '_')
}

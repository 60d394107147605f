package lab

import "io"

// Indent returns a writer, for Options.Log, that passes each line on indented.
func Indent(w io.Writer) io.Writer { return indent{w} }

type indent struct{ w io.Writer }

func (i indent) Write(p []byte) (int, error) {
	if _, err := io.WriteString(i.w, "    "); err != nil {
		return 0, err
	}
	return i.w.Write(p)
}

// Command testsum reads what `go test -json` writes, shows it briefly and closes with "N passed, N failed, N skipped".
//
// It shows each package's closing line, all output of failed tests and of packages that failed without one (they do not
// build, for example), and every line that is no event. Subtests count as tests; a package that failed without a failed
// test counts as one failure. It exits 1 if something failed or no test ran.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() {
	sum, err := summarize(os.Stdin, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testsum:", err)
		os.Exit(1)
	}
	fmt.Println(sum)
	if sum.failed > 0 || sum.passed == 0 {
		os.Exit(1)
	}
}

// event is one line of `go test -json`; see `go doc test2json`.
type event struct {
	Action      string
	Package     string
	Test        string
	Output      string
	ImportPath  string // of build events
	FailedBuild string
}

// summary counts tests.
type summary struct{ passed, failed, skipped int }

func (s summary) String() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", s.passed, s.failed, s.skipped)
}

// summarize reads events from r and shows on w what matters of them.
func summarize(r io.Reader, w io.Writer) (summary, error) {
	var sum summary
	output := map[[2]string]*strings.Builder{} // by package and test; the test is empty for the package itself
	failedTests := map[string]int{}            // by package
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadString('\n')
		if line != "" {
			var e event
			if json.Unmarshal([]byte(line), &e) != nil || e.Action == "" {
				fmt.Fprint(w, line)
			} else {
				sum.add(e, output, failedTests, w)
			}
		}
		if err == io.EOF {
			return sum, nil
		}
		if err != nil {
			return sum, err
		}
	}
}

func (s *summary) add(e event, output map[[2]string]*strings.Builder, failedTests map[string]int, w io.Writer) {
	key := [2]string{e.Package, e.Test}
	if output[key] == nil {
		output[key] = &strings.Builder{}
	}
	switch e.Action {
	case "build-output":
		fmt.Fprint(w, e.Output)
		return
	case "output":
		output[key].WriteString(e.Output)
		return
	case "pass", "fail", "skip":
	default:
		return
	}
	said := output[key].String()
	delete(output, key)
	if e.Test == "" {
		switch {
		case e.Action != "fail":
			fmt.Fprint(w, lastLine(said))
			return
		case failedTests[e.Package] == 0:
			s.failed++
		}
		fmt.Fprint(w, said)
		return
	}
	switch e.Action {
	case "pass":
		s.passed++
	case "skip":
		s.skipped++
	case "fail":
		s.failed++
		failedTests[e.Package]++
		fmt.Fprintf(w, "FAIL %s %s\n%s", e.Package, e.Test, said)
	}
}

// lastLine returns the last line of s, newline included.
func lastLine(s string) string {
	s = strings.TrimSuffix(s, "\n")
	return s[strings.LastIndex(s, "\n")+1:] + "\n"
}

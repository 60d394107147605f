package recording

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// maxSize bounds the JSON text of a recording: some thousand TaskManagers, yet no file can fill the memory.
const maxSize = 1 << 30

// Read reads a recording, gzipped or plain. It fails if the text is cut off, is no recording, or is over a gibibyte.
func Read(r io.Reader) (*Recording, error) {
	return read(r, maxSize)
}

func read(r io.Reader, limit int64) (*Recording, error) {
	b := bufio.NewReader(r)
	// An error here comes again when the text is read.
	magic, _ := b.Peek(2)
	var plain io.Reader = b
	if bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, fmt.Errorf("recording: gzip: %w", err)
		}
		defer z.Close()
		plain = z
	}
	data, err := io.ReadAll(io.LimitReader(plain, limit+1))
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, fmt.Errorf("recording: cut off after %d bytes of text: %w", len(data), err)
	case err != nil:
		return nil, fmt.Errorf("recording: %w", err)
	case int64(len(data)) > limit:
		return nil, fmt.Errorf("recording: larger than %d bytes", limit)
	case len(bytes.TrimSpace(data)) == 0:
		return nil, errors.New("recording: empty")
	}
	return parse(data)
}

// parse reads the JSON text of a recording and brings the answers into canonical form.
func parse(data []byte) (*Recording, error) {
	// The number of the format first: whatever else a later format changes is then no misleading error.
	var head struct {
		Format *int `json:"format"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, fmt.Errorf("recording: no JSON object of a recording: %w", err)
	}
	if head.Format == nil {
		return nil, errors.New("recording: the JSON object has no format number, so it is no recording")
	}
	if *head.Format != Format {
		return nil, fmt.Errorf("recording: has format %d, only format %d is known", *head.Format, Format)
	}
	r := &Recording{}
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("recording: %w", err)
	}
	if err := r.validate(); err != nil {
		return nil, fmt.Errorf("recording: %w", err)
	}
	for _, jm := range r.JobManagers {
		for path, resp := range jm.Responses {
			body, err := canonical(resp.Body)
			if err != nil {
				return nil, fmt.Errorf("recording: %s: %w", path, err)
			}
			jm.Responses[path] = Response{Status: resp.Status, Body: body}
		}
	}
	return r, nil
}

// Load reads the recording in a file.
func Load(path string) (*Recording, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return named(path, f)
}

// LoadFS reads the recording in a file of fsys.
func LoadFS(fsys fs.FS, name string) (*Recording, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return named(name, f)
}

// named adds the name of the file to errors.
func named(name string, f io.Reader) (*Recording, error) {
	r, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return r, nil
}

// Write writes the recording gzipped, with sorted keys. Equal recordings give equal bytes.
func (r *Recording) Write(w io.Writer) error {
	if err := r.validate(); err != nil {
		return fmt.Errorf("recording: %w", err)
	}
	data, err := r.marshal()
	if err != nil {
		return fmt.Errorf("recording: %w", err)
	}
	// The header of the writer holds neither a time nor a name.
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := z.Write(data); err != nil {
		return err
	}
	return z.Close()
}

// marshal returns the canonical JSON text of the recording.
func (r *Recording) marshal() ([]byte, error) {
	// Lists are lists, also when they are empty.
	c := *r
	if c.JobManagers == nil {
		c.JobManagers = []JobManager{}
	}
	if c.TaskManagers == nil {
		c.TaskManagers = []TaskManager{}
	}
	data, err := encode(c)
	if err != nil {
		return nil, err
	}
	// Once more as a tree, which sorts the keys, those of the answers included.
	return canonical(data)
}

// WriteFile writes the recording to a new file, complete or not at all. It fails with fs.ErrExist if there is a file of this name.
// Only the owner can read the file: a recording tells a lot about a cluster.
func WriteFile(path string, r *Recording) error {
	return writeFile(path, r, false)
}

// ReplaceFile is WriteFile that replaces an existing file.
func ReplaceFile(path string, r *Recording) error {
	return writeFile(path, r, true)
}

func writeFile(path string, r *Recording, replace bool) (err error) {
	if _, statErr := os.Lstat(path); statErr == nil && !replace {
		return &fs.PathError{Op: "write recording", Path: path, Err: fs.ErrExist}
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		// After a rename there is nothing left to remove.
		if rmErr := os.Remove(f.Name()); rmErr != nil && !errors.Is(rmErr, fs.ErrNotExist) && err == nil {
			err = rmErr
		}
	}()
	if err := r.Write(f); err != nil {
		f.Close()
		return err
	}
	if err := f.Sync(); err != nil {
		f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if replace {
		return os.Rename(f.Name(), path)
	}
	err = os.Link(f.Name(), path)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	// A file system without hard links: reserve the name, then replace what was reserved.
	reserved, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	reserved.Close()
	return os.Rename(f.Name(), path)
}

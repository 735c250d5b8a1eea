package cli

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/sys"
)

// maxConfig bounds a configuration file; a real one is a few KiB.
const maxConfig = 1 << 20

// maxNesting bounds how deep a configuration goes; a real one goes six levels. The parser's time grows with the square.
const maxNesting = 64

// seeExample is the advice where the mistake itself says all that is known.
const seeExample = "spillway config example prints every key with its unit, default and reason"

// LoadYAML reads the configuration file at path into the struct that into points to. It is strict: an unknown
// or repeated key, a wrong type, a size or duration without its unit, a zero where only a missing key can mean
// the default, an anchor or a second document is an error of kind Invalid that shows line and caret. The file
// must be a regular one that belongs to root (or to the user, when that is not root) and that nobody else can
// write; otherwise the error is Denied and its hint is the command that repairs it. An empty file leaves into
// as it is. After an error the contents of into are undefined.
func LoadYAML(path string, into any) error {
	f, err := sys.OpenRegularLinked(path, os.O_RDONLY, 0)
	if errors.Is(err, sys.ErrNotRegular) {
		return errkind.Hint(errkind.New(errkind.Invalid, "config: %s is not a regular file", path), "give the path of the configuration file")
	}
	if err != nil {
		err = fmt.Errorf("config: %w", err)
		if errors.Is(err, fs.ErrNotExist) {
			return errkind.Hint(errkind.Wrap(errkind.NotFound, err), "write one: spillway config example > %s", path)
		}
		return err
	}
	defer f.Close()
	if err := checkOwner(f, path); err != nil {
		return err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err != nil {
		return fmt.Errorf("config: read %s: %w", path, err)
	}
	return DecodeYAML(path, data, into)
}

// DecodeYAML is LoadYAML for bytes that need no ownership check; name stands in messages for the file.
func DecodeYAML(name string, data []byte, into any) error {
	if len(data) > maxConfig {
		return errkind.Hint(errkind.New(errkind.Invalid, "config: %s is larger than %d KiB", name, maxConfig>>10), seeExample)
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // some editors begin a file with a byte order mark
	src := source{name: name, lines: strings.Split(string(data), "\n")}
	tokens := lexer.Tokenize(string(data))
	if err := src.checkNesting(tokens); err != nil {
		return err
	}
	file, err := parser.Parse(tokens, 0)
	if err != nil {
		return src.wrap(err)
	}
	docs := 0
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		if docs++; docs > 1 {
			return src.fault(doc.Body.GetToken(), "", "a second document begins here; one file holds one configuration")
		}
		if err := src.check(doc.Body, reflect.TypeOf(into)); err != nil {
			return err
		}
	}
	if docs == 0 {
		return nil
	}
	err = yaml.NewDecoder(bytes.NewReader(data), yaml.Strict()).Decode(into)
	if err != nil && !errors.Is(err, io.EOF) {
		return src.wrap(err)
	}
	return nil
}

// wrap turns the library's errors into ours; one without a token keeps its text.
func (s source) wrap(err error) error {
	var te *yaml.TypeError
	if errors.As(err, &te) {
		return s.fault(te.Token, "", "%s is needed here", kindWord(te.DstType))
	}
	var oe *yaml.OverflowError
	if errors.As(err, &oe) {
		return s.fault(oe.Token, "", "%s is out of range", oe.SrcNum)
	}
	var ye yaml.Error
	if errors.As(err, &ye) {
		return s.fault(ye.GetToken(), "", "%s", ye.GetMessage())
	}
	return errkind.New(errkind.Invalid, "config: %s: %w", s.name, err)
}

// fault is an error at a token. A nil token leaves the position out.
func (s source) fault(tk *token.Token, hint, format string, a ...any) error {
	e := &FileError{Name: s.name, err: fmt.Errorf(format, a...)}
	if tk != nil && tk.Position != nil {
		e.Line, e.Column = tk.Position.Line, tk.Position.Column
		e.excerpt = s.excerpt(e.Line, e.Column)
	}
	return errkind.Hint(errkind.Wrap(errkind.Invalid, e), "%s", cmp.Or(hint, seeExample))
}

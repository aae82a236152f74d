package remote

import (
	"context"
	"fmt"
	"net/http"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/remote/peer"
)

// maxRequest limits what is read of one request, in bytes.
const maxRequest = 256 << 10

// An operation carries out a request and returns the answer, to be sent as JSON.
type operation func(ctx context.Context, r Request) (any, error)

// operations are the operations that a client may request, by name.
func (s *session) operations() map[string]operation {
	return map[string]operation{
		OpMachine: func(ctx context.Context, _ Request) (any, error) { return s.Machine(ctx), nil },
		OpPing:    func(context.Context, Request) (any, error) { return nil, nil },
		OpProbe: s.withEngine(func(ctx context.Context, e bench.Engine, _ Request) (any, error) {
			return e.Probe(ctx)
		}),
		OpPrepare: s.withEngine(func(ctx context.Context, e bench.Engine, r Request) (any, error) {
			spec, err := s.permitted(r.Spec)
			if err != nil {
				return nil, err
			}
			return nil, e.Prepare(ctx, spec)
		}),
		OpClose: s.withEngine(func(ctx context.Context, e bench.Engine, _ Request) (any, error) {
			return nil, e.Close(ctx)
		}),
		OpCreate:  func(ctx context.Context, r Request) (any, error) { return s.create(ctx, r) },
		OpRemove:  func(ctx context.Context, r Request) (any, error) { return nil, s.remove(ctx, r.Container) },
		OpInspect: s.withMade(func(ctx context.Context, made bench.Container) (any, error) { return made.Inspect(ctx) }),
		OpStart:   s.withMade(func(ctx context.Context, made bench.Container) (any, error) { return nil, made.Start(ctx) }),
		OpWait:    s.withContainer(func(ctx context.Context, c *container, _ Request) (any, error) { return c.wait(ctx) }),
		OpAddress: s.withContainer(func(ctx context.Context, c *container, r Request) (any, error) {
			a, made, err := c.addresser()
			if err != nil {
				return nil, err
			}
			at, err := a.Address(ctx, made, s.publishedPort(r.Port))
			return at.Port(), err // the client itself knows this machine's address
		}),
		OpPath: s.withContainer(func(ctx context.Context, c *container, r Request) (any, error) {
			a, made, err := c.addresser()
			if err != nil {
				return nil, err
			}
			return a.Path(ctx, made, s.publishedPort(r.Port))
		}),
	}
}

func (s *session) withEngine(do func(context.Context, bench.Engine, Request) (any, error)) operation {
	return func(ctx context.Context, r Request) (any, error) {
		e, err := s.engine(r.Engine)
		if err != nil {
			return nil, err
		}
		return do(ctx, e, r)
	}
}

func (s *session) withContainer(do func(context.Context, *container, Request) (any, error)) operation {
	return func(ctx context.Context, r Request) (any, error) {
		c, err := s.containerOf(r.Container)
		if err != nil {
			return nil, err
		}
		return do(ctx, c, r)
	}
}

// withMade is withContainer for operations of the engine's container alone.
func (s *session) withMade(do func(context.Context, bench.Container) (any, error)) operation {
	return s.withContainer(func(ctx context.Context, c *container, _ Request) (any, error) {
		made, err := c.now()
		if err != nil {
			return nil, err
		}
		return do(ctx, made)
	})
}

// handler serves the operations.
func (s *session) handler() http.Handler {
	mux := http.NewServeMux()
	for name, do := range s.operations() {
		mux.HandleFunc("POST /"+name, func(w http.ResponseWriter, r *http.Request) {
			var ask Request
			var out any
			err := peer.Read(w, r, maxRequest, &ask)
			if err == nil {
				out, err = do(r.Context(), ask)
			}
			s.logCall(name, ask, err)
			peer.Answer(w, name, out, err)
		})
	}
	mux.HandleFunc("POST /"+OpAttach, func(w http.ResponseWriter, r *http.Request) {
		var ask Request
		err := peer.Read(w, r, maxRequest, &ask)
		var c *container
		if err == nil {
			c, err = s.containerOf(ask.Container)
		}
		if err == nil {
			err = c.attach(w, r, ask)
		}
		s.logCall(OpAttach, ask, err)
		if err != nil {
			peer.Answer(w, OpAttach, nil, err)
		}
	})
	return mux
}

// logCall logs a call, including failed ones. It does not log pings, nor successful creation and
// removal, which are logged elsewhere with the container's name.
func (s *session) logCall(name string, r Request, err error) {
	what := name
	switch {
	case r.Container != 0:
		what += fmt.Sprintf(" of container %d", r.Container)
	case r.Engine != "":
		what += fmt.Sprintf(" of %.80q", r.Engine)
	}
	switch {
	case err != nil:
		s.logf("%s failed: %.500s", what, err.Error())
	case name != OpPing && name != OpCreate && name != OpRemove:
		s.logf("%s", what)
	}
}

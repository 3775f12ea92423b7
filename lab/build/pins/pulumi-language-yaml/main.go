// The YAML language host's own main, with the one call that `pulumi package add` makes of it and
// that the last version offered as a module does not have: there is nothing to link into YAML.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/pulumi/pulumi-yaml/pkg/server"
	"github.com/pulumi/pulumi/sdk/v3/go/common/util/rpcutil"
	pulumirpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
	"google.golang.org/grpc"
)

type languageHost struct {
	pulumirpc.LanguageRuntimeServer
}

func (languageHost) Link(context.Context, *pulumirpc.LinkRequest) (*pulumirpc.LinkResponse, error) {
	return &pulumirpc.LinkResponse{ImportInstructions: "The program can use the package's types."}, nil
}

// Ends the host when the engine has gone or on SIGINT.
func cancelled(engine string) (chan bool, error) {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	done := make(chan bool)
	go func() {
		<-ctx.Done()
		cancel()
		close(done)
	}()
	if engine == "" {
		return done, nil
	}
	return done, rpcutil.Healthcheck(ctx, engine, 5*time.Minute, cancel)
}

func run() error {
	tracing := flag.String("tracing", "", "where to send traces to")
	flag.String("root", "", "the program's directory")
	flag.Parse()
	engine := flag.Arg(0)
	cancel, err := cancelled(engine)
	if err != nil {
		return err
	}
	handle, err := rpcutil.ServeWithOptions(rpcutil.ServeOptions{
		Cancel: cancel,
		Init: func(grpcServer *grpc.Server) error {
			host := languageHost{server.NewLanguageHost(engine, *tracing, false)}
			pulumirpc.RegisterLanguageRuntimeServer(grpcServer, host)
			return nil
		},
	})
	if err != nil {
		return err
	}
	fmt.Println(handle.Port)
	return <-handle.Done
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Command kube-apiserver is Kubernetes' own API server, built here because no package registry offers the binary. It is a module of its own
// so that the exporter does not depend on it.
package main

import (
	"os"
	_ "time/tzdata" // the server runs wherever the lab does, with or without a zone database

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() { os.Exit(cli.Run(app.NewAPIServerCommand())) }

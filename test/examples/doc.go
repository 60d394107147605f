// Package examples holds the checks of examples/ and of mixin.libsonnet: kustomize builds them, Helm lints and renders them, every object is
// decoded strictly into the API's own types, and Jsonnet evaluates the mixin. It is a module of its own, since what it needs is heavy and the
// exporter needs none of it; the first build takes some minutes.
package examples

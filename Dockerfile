ARG GO_VERSION=1.26.8

FROM golang:${GO_VERSION}-trixie AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION= REVISION= BRANCH= DATE=
RUN make build VERSION="${VERSION}" REVISION="${REVISION}" BRANCH="${BRANCH}" DATE="${DATE}"

FROM gcr.io/distroless/static-debian13:nonroot
ARG VERSION= REVISION= DATE=
LABEL org.opencontainers.image.title="flink-lineage-exporter" \
      org.opencontainers.image.description="Prometheus exporter for the lineage of Flink tasks; detects executions that run twice" \
      org.opencontainers.image.source="https://github.com/flink-lineage/flink-lineage-exporter" \
      org.opencontainers.image.documentation="https://github.com/flink-lineage/flink-lineage-exporter/blob/main/README.md" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${DATE}"
COPY LICENSE /LICENSE
COPY --from=build /src/flink-lineage-exporter /flink-lineage-exporter
# A number, so that Kubernetes' runAsNonRoot can tell that it is not root.
USER 65532:65532
EXPOSE 9269
HEALTHCHECK --interval=30s --timeout=5s --start-period=10s \
  CMD ["/flink-lineage-exporter", "health", "--url", "http://localhost:9269/-/healthy"]
ENTRYPOINT ["/flink-lineage-exporter"]

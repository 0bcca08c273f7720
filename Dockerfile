# The image is the static binary and nothing else: no shell, no libc, no
# certificates (the binary carries the CA roots). Build the binary first:
#
#   make image        (= make build && docker build -t osqueue .)

# Folders for the volumes. A new named volume takes over the owner of the
# folder that it is mounted on, so they have to be there, and belong to the user.
FROM scratch AS folders
WORKDIR /data
WORKDIR /bucket
WORKDIR /ca
WORKDIR /certs/n1
WORKDIR /certs/n2
WORKDIR /certs/n3
WORKDIR /certs/worker

FROM scratch
COPY --from=folders --chown=65532:65532 /data /data
COPY --from=folders --chown=65532:65532 /bucket /bucket
COPY --from=folders --chown=65532:65532 /ca /ca
COPY --from=folders --chown=65532:65532 /certs /certs
COPY bin/osqueue /osqueue

LABEL org.opencontainers.image.title="osqueue" \
	org.opencontainers.image.description="A job queue on three small machines and a bucket" \
	org.opencontainers.image.licenses="Apache-2.0"

USER 65532:65532
# HTTP API, raft
EXPOSE 8080 7080
ENTRYPOINT ["/osqueue"]
CMD ["help"]

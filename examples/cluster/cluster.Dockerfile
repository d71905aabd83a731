# The command with --cluster, scheduler and executor:
#   docker build -f examples/cluster/cluster.Dockerfile -t tfr-sql-cluster .     (from the root of the repository)
FROM rust:1.95-slim-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc g++ libc6-dev && rm -rf /var/lib/apt/lists/*
COPY . /src
RUN cargo install --locked --path /src/crates/tfr-cluster --root /out

FROM debian:bookworm-slim
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates && rm -rf /var/lib/apt/lists/*
COPY --from=build /out/bin/tfr-sql /usr/local/bin/
ENTRYPOINT ["tfr-sql"]

#!/bin/sh
# Registers TEMPORAL_NAMESPACE at TEMPORAL_ADDRESS where it is missing. Fails while the server is not ready yet,
# and is started again then.
set -eu

temporal operator cluster health
temporal operator namespace describe --namespace "$TEMPORAL_NAMESPACE" ||
  temporal operator namespace create --namespace "$TEMPORAL_NAMESPACE" --retention "$RETENTION"

#!/bin/sh
# Runs rustdoc with its unstable options. A wrapper sets the variable for rustdoc alone: set for cargo, it would make build
# scripts look for unstable features, and everything would be built again.
RUSTC_BOOTSTRAP=1 exec rustdoc "$@"

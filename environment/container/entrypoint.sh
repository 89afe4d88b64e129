#!/bin/sh
# Puts the lessons into the home folder, once (it may be an empty volume), and becomes the command.
set -eu
if ! [ -e "$HOME/notebooks" ]; then
    cp -r --no-preserve=mode,ownership /opt/quantlab/checkout/notebooks "$HOME/notebooks"
fi
exec "$@"

#!/bin/sh
# What the hub starts as a learner: puts the lessons into their home, and becomes the server that its arguments name.
set -eu
umask 077
chmod 700 "$HOME"
mkdir -p "$HOME/notebooks"
for item in "$QUANTLAB_LESSONS"/*; do
    own=$HOME/notebooks/$(basename "$item")
    # Once: what is there is theirs. A lesson that they remove or rename comes anew.
    if [ -e "$own" ]; then continue; fi
    # Under another name until it is whole.
    half=$HOME/notebooks/.half
    rm -rf "$half"
    cp -r --no-preserve=mode,ownership "$item" "$half"
    rm -f "$half/solution.ipynb"
    mv "$half" "$own"
done
# As a kernel does, so that an update does not remove the set-up that the server runs from.
if [ -e "$QUANTLAB_HOME/in-use.lock" ]; then
    exec 9< "$QUANTLAB_HOME/in-use.lock"
    flock --shared 9
fi
cd "$HOME"
exec "$@"

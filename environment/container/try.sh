#!/usr/bin/env bash
# Builds the image where there is neither a registry of images nor a container engine, and tries it as strangers would:
#   environment/container/try.sh FOLDER          the image: from its users to a packed set-up
#   environment/container/try.sh FOLDER fresh    lesson 1 by `cargo lab run`, on a Debian where nothing is set up
#   environment/container/try.sh FOLDER prebuilt  a first plot there, from what this machine's set-up has compiled
# FOLDER (20 GB) keeps the base and the image's layers between calls. As root, on Debian with the packages buildah and
# debootstrap, and with Rust from rustup. An evcxr_jupyter on the PATH is put into the base.
set -euo pipefail

checkout=$(realpath "$(dirname "$0")/../..")
folder=$(realpath -m "${1:?environment/container/try.sh FOLDER}")
toolchain=$(rustc --print sysroot)
toolchain_name=$(sed -n 's/^channel = "\(.*\)"/\1/p' "$checkout/rust-toolchain.toml")-$(rustc -vV | sed -n 's/^host: //p')
mkdir -p "$folder"
cd "$folder"
export BUILDAH_ISOLATION=chroot STORAGE_DRIVER=overlay
buildah() { command buildah --root "$folder/storage" --runroot "$folder/run" "$@"; }
step() { printf '\n== %s\n' "$*"; }
fail() { printf 'FAILED: %s\n' "$*" >&2; exit 1; }

# What rust:1.95-slim-bookworm holds, from Debian's packages and this machine's toolchain.
make_base() {
    rm -rf base
    debootstrap --variant=minbase --include=ca-certificates,gcc,libc6-dev bookworm base > debootstrap.log
    rm -rf base/var/cache/apt/archives/*.deb base/var/lib/apt/lists/*
    local rustup=base/usr/local/rustup cargo=base/usr/local/cargo
    mkdir -p "$rustup/toolchains/$toolchain_name" "$cargo/bin"
    tar -C "$toolchain/" --exclude=./share/doc --exclude=./share/man -c . | tar -C "$rustup/toolchains/$toolchain_name" -x
    cp -a "$(dirname "$(command -v rustup)")"/{rustup,cargo,rustc} "$cargo/bin/"
    printf 'version = "12"\nprofile = "minimal"\ndefault_toolchain = "%s"\n' "$toolchain_name" > "$rustup/settings.toml"
    chmod -R a+w "$rustup" "$cargo"
    # A kernel's program that is there already; else the image builds its own.
    if command -v evcxr_jupyter > /dev/null; then cp "$(command -v evcxr_jupyter)" base/usr/local/bin/; fi
    # What this machine trusts, and where it installs from: a build behind a proxy works too.
    cp -L /etc/ssl/certs/ca-certificates.crt base/etc/ssl/certs/
    if [ -e /etc/pip.conf ]; then cp /etc/pip.conf base/etc/; fi
    local container
    container=$(buildah from scratch)
    buildah add --quiet "$container" base /
    buildah config --env RUSTUP_HOME=/usr/local/rustup --env CARGO_HOME=/usr/local/cargo \
        --env PATH=/usr/local/cargo/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$container"
    buildah commit --quiet --rm "$container" quantlab-base
    rm -rf base
}

# inside ROOT USER HOME COMMAND...: as USER of group 0, over a root that nobody can write to, with this home folder.
inside() {
    unshare --mount --pid --fork bash -euc '
        root=$1 user=$2 home=$3; shift 3
        mount --bind "$root" "$root"
        mount --bind "$home" "$root/home/quantlab"
        mount -t proc proc "$root/proc"
        mount --rbind /dev "$root/dev"
        mount -t tmpfs tmpfs "$root/tmp"
        [ -z "${WORKSPACE-}" ] || mount --bind "$WORKSPACE" "$root/opt/quantlab/checkout"
        [ -z "${READ_ONLY-}" ] || mount -o remount,bind,ro "$root"
        exec chroot --userspec="$user:0" "$root" env -i -C /home/quantlab "$@"
    ' inside "$1" "$2" "$3" "${image_env[@]}" "${@:4}"
}

# timed ROOT USER HOME: a kernel's first value within 15 seconds, and nothing compiled but the cell.
timed() {
    touch before
    local report
    report=$(inside "$@" sh -c 'cd /opt/quantlab/checkout && lab doctor --json --time')
    echo "$report" | grep -E '"(ready_s|first_value_s|cell_median_s|set_up|kernel_fresh)"'
    python3 -c 'import json, sys
report = json.load(sys.stdin)
sys.exit(not (report["set_up"] and report["kernel_fresh"] and report["ready_s"] + report["first_value_s"] <= 15))' <<< "$report" \
        || fail "not set up, or slower than 15 s"
    [ -z "$(find "$1/opt/quantlab/home" -name '*.rlib' -newer before -print -quit)" ] || fail "something was compiled again"
}

copy_checkout() {
    rm -rf "$1"
    tar -C "$checkout" --exclude=./target -c . | tar -x --one-top-level="$1"
    chown -R 1000:0 "$1"
}

build() {
    buildah bud --quiet --layers --build-arg BASE=localhost/quantlab-base "$@" \
        --file "$checkout/environment/container/Containerfile" \
        --ignorefile "$checkout/environment/container/Containerfile.dockerignore" "$checkout"
}

# Sets `container` and `root`, where its files are.
open_image() {
    container=$(buildah from "$1")
    trap 'buildah rm "$container" > /dev/null' EXIT
    root=$(buildah mount "$container")
}

empty_home() { rm -rf home; install -d -o 1000 -g 0 -m 2775 home; realpath home; }

buildah inspect --type image quantlab-base > /dev/null 2>&1 || { step "base: Debian, and Rust as in the official image"; make_base; }

# A Debian with Rust, a C++ compiler and Python.
open_bare() {
    build --target tools --tag quantlab-tools
    open_image quantlab-tools
    rm -f "$root/usr/local/bin/evcxr_jupyter"
    image_env=(HOME=/home/quantlab PATH=/usr/local/cargo/bin:/usr/bin:/bin RUSTUP_HOME=/usr/local/rustup)
    home=$(empty_home)
}

if [ "${2-}" = prebuilt ]; then
    step "archives, signed with a key of this trial, and a server on loopback"
    rm -rf key key.pub served
    minisign -GW -p key.pub -s key > /dev/null
    (cd "$checkout" && cargo lab pack --publish --key "$folder/key" "$folder/served")
    python3 -m http.server --bind 127.0.0.1 --directory served 8742 2> server.log &
    server=$!
    step "another user, home and checkout: clone, set up, and a plot"
    open_bare
    trap 'kill $server; buildah rm "$container" > /dev/null' EXIT
    cp key.pub "$home/"
    image_env+=(QUANTLAB_PREBUILT_KEY=/home/quantlab/key.pub)
    start=$SECONDS
    git clone --quiet "$checkout" "$home/course"
    chown -R 1000:0 "$home"
    since() { echo "-- $1 after $((SECONDS - start)) s"; }
    inside "$root" 1000 "$home" sh -c 'cd course && cargo build --quiet --package quantlab-environment'
    since "cargo lab is compiled"
    inside "$root" 1000 "$home" sh -c 'cd course && cargo lab setup --from http://127.0.0.1:8742'
    since "set up"
    inside "$root" 1000 "$home" sh -c 'cd course && cargo lab new ~/first && cargo lab run --output ~/out ~/first.ipynb'
    since "the first plot"
    grep -rq '"image/' "$home/out" || fail "no plot"
    [ "$((SECONDS - start))" -le 180 ] || fail "more than 3 minutes"
    exit
fi

if [ "${2-}" = fresh ]; then
    step "a Debian with Rust, a C++ compiler and Python: lesson 1, by \`cargo lab run\`"
    open_bare
    copy_checkout "$home/checkout"
    start=$SECONDS
    inside "$root" 1000 "$home" sh -c 'cd checkout && cargo lab run notebooks/01-latency-and-precision/solution.ipynb'
    echo "from nothing to the lesson's last cell in $(((SECONDS - start) / 60)) min $(((SECONDS - start) % 60)) s"
    exit
fi

step "image"
build --tag quantlab
open_image quantlab
mapfile -t image_env < <(buildah inspect --format '{{range .OCIv1.Config.Env}}{{println .}}{{end}}' "$container" | grep =)
size=$(du -sx --block-size=1M "$root" | cut -f1)
echo "unpacked: $size MB"
[ "$size" -le 5000 ] || fail "more than 5 GB"

step "its user"
timed "$root" 1000 "$(empty_home)"

step "any user of group 0, an empty volume over the home folder, a root that nobody can write to"
home=$(empty_home)
chmod 2777 "$home"
READ_ONLY=1 timed "$root" 54321 "$home"

step "what it runs: the entry point puts the lessons there, and Jupyter answers"
entry=/opt/quantlab/checkout/environment/container/entrypoint.sh
READ_ONLY=1 inside "$root" 54321 "$home" "$entry" timeout 60 python3 -c '
import json, subprocess, time, urllib.request
server = subprocess.Popen(["jupyter", "lab", "--ip=127.0.0.1", "--port=8899", "--no-browser", "--IdentityProvider.token=t",
                           "--ServerApp.root_dir=/home/quantlab/notebooks"], stderr=subprocess.DEVNULL)
ask = lambda what: json.load(urllib.request.urlopen(f"http://127.0.0.1:8899/api/{what}?token=t", timeout=5))
for _ in range(50):
    try:
        lessons = [entry["name"] for entry in ask("contents")["content"] if entry["type"] == "directory"]
        break
    except OSError:
        time.sleep(1)
print(*sorted(lessons), *ask("kernelspecs")["kernelspecs"])
server.terminate()' | tee answer
grep -q '01-latency-and-precision.* quantlab' answer || fail "no lessons, or no kernel"

step "a development container: one's own checkout where the image has its"
settings=$checkout/.devcontainer/devcontainer.json
setting() { sed -n "s/^ *\"$1\": \"\(.*\)\",*\$/\1/p" "$settings"; }
grep -E '"(image|workspaceMount|remoteUser|postCreateCommand)":' "$settings"
[ "$(setting workspaceFolder)" = /opt/quantlab/checkout ] || fail "its folder is not where the image has its checkout"
copy_checkout workspace
WORKSPACE=$(realpath workspace)
export WORKSPACE
uid=$(chroot "$root" id -u "$(setting remoteUser)")
home=$(empty_home)
start=$SECONDS
inside "$root" "$uid" "$home" sh -c "cd $(setting workspaceFolder) && $(setting postCreateCommand)"
echo "ready after $((SECONDS - start)) s"
timed "$root" "$uid" "$home"
unset WORKSPACE

step "packed there, and set up from that where nothing is"
home=$(empty_home)
inside "$root" 1000 "$home" sh -c 'cd /opt/quantlab/checkout && lab pack ~/quantlab.tar.gz'
mv "$root/opt/quantlab/home/bin/lab" "$root/usr/local/bin/lab"
find "$root/opt/quantlab/home" -mindepth 1 -delete
start=$SECONDS
inside "$root" 1000 "$home" sh -c 'cd /opt/quantlab/checkout && lab setup --from ~/quantlab.tar.gz'
timed "$root" 1000 "$home"
echo "set up and timed in $((SECONDS - start)) s"
echo
echo "All of it works."

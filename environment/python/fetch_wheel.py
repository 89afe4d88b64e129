"""Fetches one pinned wheel through the package registry that pip is configured for, or a file from an address.

pip resolves the address of a wheel; the download itself is taken up again where it broke off, and the file
counts as there only once its SHA-256 is the pinned one.
"""

import argparse
import hashlib
import http.client
import json
import os
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import zipfile
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath

TRIES = 5
CHUNK = 1 << 20


def locate(requirement, platform):
    """Address and SHA-256 of the wheel, as pip resolves it (index, mirrors and proxies included)."""
    command = [
        sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--no-deps",
        "--only-binary=:all:", "--python-version", "3.11", "--platform", platform, "--report", "-", requirement,
    ]
    # pip takes another platform's wheels only with a target; nothing is written there.
    with tempfile.TemporaryDirectory() as target:
        done = subprocess.run([*command, "--target", target], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"pip cannot find {requirement}:\n{done.stderr.strip()}")
    info = json.loads(done.stdout)["install"][0]["download_info"]
    return info["url"], info["archive_info"]["hashes"]["sha256"]


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def download(url, part):
    """Appends to `part` what is still missing."""
    cafile = os.environ.get("PIP_CERT") or os.environ.get("SSL_CERT_FILE")
    context = ssl.create_default_context(cafile=cafile)
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        response = urllib.request.urlopen(request, timeout=60, context=context)
    except urllib.error.HTTPError as error:
        if error.code == 416:  # nothing is missing; the hash will tell
            return
        raise
    with response:
        resumed = response.status == 206
        length = response.headers.get("Content-Length")
        start = have if resumed else 0
        total = start + int(length) if length else None
        shown = time.monotonic()
        with open(part, "ab" if resumed else "wb") as file:
            while chunk := response.read(CHUNK):
                file.write(chunk)
                start += len(chunk)
                if time.monotonic() - shown > 5:
                    shown = time.monotonic()
                    of = f" of {total / 1e6:.0f}" if total else ""
                    print(f"  {start / 1e6:.0f}{of} MB", flush=True)
        if total and start < total:
            raise OSError(f"the connection ended at {start} of {total} bytes")


def extract(wheel, prefix, patterns, into):
    """Unpacks the members below `prefix` that match one of the patterns (relative to it)."""
    found = set()
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            path = PurePosixPath(member.filename)
            if member.is_dir() or not path.is_relative_to(prefix):
                continue
            path = path.relative_to(prefix)
            hits = {pattern for pattern in patterns if fnmatch(str(path), pattern)}
            if hits:
                found |= hits
                target = into / path
                target.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(member) as source, open(target, "wb") as file:
                    while chunk := source.read(CHUNK):
                        file.write(chunk)
    missing = set(patterns) - found
    if missing:
        sys.exit(f"{wheel.name} has no {', '.join(sorted(missing))} below {prefix}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("requirement", help="NAME==VERSION, or an address")
    parser.add_argument("sha256", help="the file's pinned SHA-256; - for any")
    parser.add_argument("target", type=Path, help="where the file is kept")
    parser.add_argument("--platform", help="of a wheel")
    parser.add_argument("--extract", metavar="PREFIX", help="folder inside the wheel")
    parser.add_argument("--into", type=Path, help="where its members go")
    parser.add_argument("patterns", nargs="*", help="members, relative to PREFIX")
    args = parser.parse_intermixed_args()
    try:
        fetch(args)
        if args.into:
            extract(args.target, args.extract, args.patterns, args.into)
    except OSError as error:
        sys.exit(f"{error}; free some space if the disk is full, then run set-up again: it resumes from here")


def fetch(args):
    if args.target.exists() and sha256(args.target) == args.sha256:
        return
    is_address = args.requirement.startswith(("https://", "http://"))
    url, listed = (args.requirement, args.sha256) if is_address else locate(args.requirement, args.platform)
    if listed != args.sha256:
        sys.exit(f"the registry's {args.requirement} has SHA-256 {listed}, but {args.sha256} is pinned; not downloaded")
    args.target.parent.mkdir(parents=True, exist_ok=True)
    part = args.target.with_name(args.target.name + ".part")
    if args.sha256 == "-":  # what an earlier call left may be of another state of it
        part.unlink(missing_ok=True)
    for attempt in range(1, TRIES + 1):
        try:
            download(url, part)
            break
        except (OSError, http.client.HTTPException) as error:
            if getattr(error, "errno", None) == 28:
                sys.exit(f"no space left on the disk of {part.parent}; free some and run set-up again: it resumes from here")
            if isinstance(error, urllib.error.HTTPError) and error.code < 500:
                sys.exit(f"{url}: the server answers {error.code} ({error.reason})")
            if attempt == TRIES:
                sys.exit(f"download of {args.requirement} was interrupted {TRIES} times ({error}); run set-up again: it resumes from here")
            print(f"  the connection broke ({error}); resuming from there", flush=True)
            time.sleep(2 * attempt)
    found = sha256(part)
    if args.sha256 not in (found, "-"):
        part.unlink()
        sys.exit(f"what was downloaded for {args.requirement} has SHA-256 {found}, but {args.sha256} is pinned; it was removed: run set-up again")
    part.rename(args.target)


if __name__ == "__main__":
    main()

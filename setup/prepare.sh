#!/bin/sh
# Makes an environment ready: finds a Python that fits and hands over to environment.py. Called by the Makefile:
#
#   sh setup/prepare.sh main      .venv, for everything
#   sh setup/prepare.sh tf220     .venv-tf220, the same on TensorFlow 2.20
#   sh setup/prepare.sh tpu       .venv-tpu, the same on tensorflow-tpu, for a TPU machine
#   sh setup/prepare.sh tpu-check .venv-tpu-check, the TPU's compiler alone
#   sh setup/prepare.sh peers     .venv-peers, everything and transformers on PyTorch
#
# PYTHON=/path/of/python names the Python to use; else python3.13 down to python3 are tried. A candidate is run, not only
# looked up: the name may belong to a shim of a version manager behind which nothing is installed.
set -u

name=${1:?usage: sh setup/prepare.sh main|tf220|tpu|tpu-check|peers}
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd) || exit 1
# Modules from elsewhere must not get into the environment.
unset PYTHONHOME PYTHONPATH

case $name in
    main) folder=$here/../.venv ;;
    *) folder=$here/../.venv-$name ;;
esac
# A ready environment is kept, whichever Python made it; only PYTHON= can ask for another one.
if [ -z "${PYTHON:-}" ] && [ -x "$folder/bin/python" ]; then
    "$folder/bin/python" -I "$here/environment.py" "$name" --is-ready 2>/dev/null && exit 0
fi

# Runs on any Python, 2.7 included. Exit code: 0 fits, 3 wrong version, 4 venv or ensurepip missing.
check='
import sys
print(".".join(map(str, sys.version_info[:3])))
fits = (3, 11) <= sys.version_info[:2] <= (3, 13) and sys.version_info[3] == "final"
if not fits or sys.implementation.name != "cpython" or "free-threading" in sys.version:
    sys.exit(3)
try:
    import ensurepip, venv
except ImportError:
    sys.exit(4)
'

seen=
try() { # candidate: 0 if it fits; otherwise notes in $seen what was wrong
    version=$("$1" -I -c "$check" 2>/dev/null </dev/null)
    case $? in
        0) return 0 ;;
        3) seen="$seen, $1 is Python $version" ;;
        4) seen="$seen, $1 ($version) has no venv or ensurepip module (Debian, Ubuntu: apt-get install python${version%.*}-venv)" ;;
        *)
            # Python 2 knows no -I. A name that is nowhere needs no word.
            if version=$("$1" -c "$check" 2>/dev/null </dev/null) || [ -n "$version" ]; then
                seen="$seen, $1 is Python $version"
            elif command -v "$1" >/dev/null 2>&1; then
                seen="$seen, $1 does not run"
            elif [ -n "${PYTHON:-}" ]; then
                seen="$seen, $1 does not exist"
            fi
            ;;
    esac
    return 1
}

found=
if [ -n "${PYTHON:-}" ]; then
    try "$PYTHON" && found=$PYTHON
else
    for candidate in python3.13 python3.12 python3.11 python3 python; do
        try "$candidate" && found=$candidate && break
    done
fi
if [ -z "$found" ]; then
    advice="install one (Debian, Ubuntu: apt-get install python3.11 python3.11-venv) or name it: make PYTHON=/path/of/python3.11"
    echo "setup: error: no fitting Python: CPython 3.11, 3.12 or 3.13 with venv is needed${seen:-, none found}; $advice" >&2
    exit 1
fi
exec "$found" -I "$here/environment.py" "$name"

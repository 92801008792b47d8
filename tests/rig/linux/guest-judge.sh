# SPDX-License-Identifier: GPL-2.0-or-later
#
# To be read by a shell that judges traces of a guest outside of the machine
# (see outside in guest-trace.sh): ROOT is the folder that the machine had.

# judge FILE RUNS [PIECES]: what is recorded of the program is exact, and what
# its kernel has done is one way through its code
judge() {
    exact "$@"
    one_way
}

# exact FILE RUNS [PIECES]: what is recorded of the program is
exact() {
    echo "$1:"
    # A trace whose agent was killed lacks its end.
    backtrail script --events "$1" >script || [ $? = 3 ]
    runs "$2" "${3:-0}"
}

# runs RUNS PIECES: the same of what is in "script"
runs() {
    trace-exact "$ROOT/walk" "$1" "$2" <script >exact ||
        { cat exact; exit 1; }
    cat exact
}

# one_way [pti]: what is in "script", of the kernel and one vCPU, is one way
one_way() {
    trace-way "$ROOT/files/guest-code" changes symbols \
        ${BTS_STRICT:+strict} "$@" <script
}

# gaps FILE: why records are missing in it, or time has jumped, and how often
gaps() {
    backtrail script --events-only "$1" |
        sed -n 's/.* event gap reason=\([a-z-]*\) .*/\1/p' | sort | uniq -c |
        sed 's/^ *//'
}

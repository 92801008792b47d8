#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# lcov 1.16 counts functions that are none in files of lcov 2, or none at all.
#
# One would guess: a tracefile that lcov 2 wrote is refused by an older lcov, or
# read with what that knows; "FN:" has been in the format for twenty years.
#
# What is so: geninfo(1) of lcov 2 documents the last line of a function, as in
# "FN:1,5,first". lcov 1.16 of Debian 12 takes "5" for a function of its own,
# which was never called, so that two functions become four and their coverage
# halves. lcov 2.3.1 of
# Debian 13 writes "FNL:" and "FNA:" in place of "FN:" and "FNDA:", also if it
# only adds up tracefiles that have the old ones; 1.16 skips these, and says "no
# data found". Both times lcov 1.16 warns of nothing and succeeds.
#
# Why it matters: coverage of one program is often merged from several machines.
# The lines come out right, and that hides it.
#
# How to cope: whoever writes tracefiles writes "FN:LINE,NAME", which all
# versions read. Merge with the newest lcov of all machines, and do not give
# its result back to older ones.
#
# Takes a minute; fetches 90 MB.

. "$(dirname "$0")/lib.sh" || exit

from bookworm
get_all "$DIR/1" lcov=1.16-1
from trixie
get_all "$DIR/2" lcov=2.3.1-1

# lcov MAJOR ARGUMENT...: with the perl of its own release
lcov() {
    local root=$DIR/$1 library path
    local -x PERL5LIB=
    shift
    library=$root/usr/lib/x86_64-linux-gnu
    for path in "$root"/usr/share/perl/5.* "$library"/perl/5.* \
        "$library"/perl5/5.* "$library/perl-base" "$root/usr/share/perl5"; do
        PERL5LIB=$path${PERL5LIB:+:$PERL5LIB}
    done
    within "$root" usr/bin/perl "$root/usr/bin/lcov" "$@" 2>&1
}

# functions FILE: what lcov 1.16 says of them
functions() {
    lcov 1 -a "$1" -o "$1.out" >"$DIR/said" ||
        changed "lcov 1.16 refuses $(basename "$1")"
    if grep -iE 'warn|error' "$DIR/said"; then
        changed "lcov 1.16 warns of $(basename "$1")"
    fi
    grep -qE 'lines\.*: 50\.0% \(1 of 2' "$DIR/said" ||
        changed "the lines of $(basename "$1") are other ones"
    sed -n 's/^ *functions\.*: //p' "$DIR/said"
}

printf 'int x;\n%.0s' {1..9} >"$DIR/a.c"
# tracefile FIRST SECOND: two functions, of which one was called
tracefile() {
    cat <<EOF
TN:
SF:$DIR/a.c
FN:$1
FNDA:3,first
FN:$2
FNDA:0,second
DA:2,3
DA:8,0
end_of_record
EOF
}
tracefile 1,first 7,second >"$DIR/old"
tracefile 1,5,first 7,9,second >"$DIR/ends"
lcov 2 -a "$DIR/old" -o "$DIR/new" >"$DIR/said" || changed "lcov 2 fails"

say "lcov 1.16, FN:1,first:"
old=$(functions "$DIR/old")
say "  $old"
say "lcov 1.16, FN:1,5,first:"
ends=$(functions "$DIR/ends")
say "  $ends"
say "lcov 2.3.1 makes of FN:1,first:"
grep '^FN[^FH]' "$DIR/new" | sed 's/^/  /'
say "lcov 1.16, of that:"
new=$(functions "$DIR/new")
say "  $new"

[ "$old" = "50.0% (1 of 2 functions)" ] || changed "even two are not two"
[ "$ends" = "25.0% (1 of 4 functions)" ] || changed "ends are not functions"
grep -q '^FNL:' "$DIR/new" || changed "lcov 2.3.1 writes no FNL"
! grep -q '^FN:' "$DIR/new" || changed "lcov 2.3.1 writes FN"
[ "$new" = "no data found" ] || changed "lcov 1.16 reads FNL and FNA"
say "SO IT IS"

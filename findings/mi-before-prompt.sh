#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# What gdb's MI prints before its first prompt can be invalid UTF-8.
#
# One would guess:
#   MI's strings have each byte that is not ASCII as an octal number, as they
#   do for a command that is typed; or they have characters as they are.
#   Either way, what reads MI can take it for UTF-8.
# What is so:
#   - What commands print that gdb has by -ex, -iex or -x, before the first
#     prompt, has bytes from 0x80 to 0x9f as octal numbers, and those from 0xa0
#     on as they are: of the three bytes of U+26A0, "\xe2\232\xa0".
#   - gdb 18 begins each warning with that character, unless the locale has
#     none.
#   gdb 16.3 and 18.1.
# Why it matters:
#   A front end that decodes gdb's output strictly ends at the first warning of
#   a program that gives gdb a script to begin with.
# How to cope:
#   Read MI as bytes, and decode strings after their octal numbers; or say "set
#   print sevenbit-strings on" first.
#
# Fetches 60 MB.

. "$(dirname "$0")/lib.sh" || exit

# strings GDB: what MI has for U+26A0, before and after the first prompt
strings() {
    # shellcheck disable=SC1003 # the backslash is gdb's
    within "$1" usr/bin/gdb -q -nx -i=mi "${@:2}" -ex 'echo \342\232\240' \
        <<<'echo \342\232\240' 2>"$DIR/log" | grep -a '^~"' |
        od -An -v -tx1 | tr -d ' \n'
    echo
}

RAW=7e22e25c323332a022
OCTAL=7e225c3334325c3233325c32343022
for version in trixie/16.3-1 sid/18.1-3; do
    from "${version%/*}"
    root=$DIR/${version%/*}
    get_all "$root" "gdb-minimal=${version#*/}"
    found=$(strings "$root")
    say "gdb ${version#*/}: $found"
    [ "$found" = "${RAW}0a${OCTAL}0a" ] || changed "it has other bytes"
    found=$(strings "$root" -iex 'set print sevenbit-strings on')
    [ "$found" = "${OCTAL}0a${OCTAL}0a" ] || changed "the setting does not help"
done
say "SO IT IS"

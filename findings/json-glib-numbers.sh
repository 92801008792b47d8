#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# json-glib takes an integer that does not fit for another one, without an error,
# and 1.6 writes some doubles as what is no JSON.
#
# One would guess:
#   A number from 2^63 on, as QEMU's monitor has them (the type uint64), is an
#   error, or a double, or keeps its bits in the int64_t; whatever json-glib
#   writes, it and others can read.
# What is so:
#   - 1.6.6 reads 9223372036854775808 as -9223372036854775808, and 2^64 - 1 and
#     whatever is larger as -1; -9223372036854775809 is 9223372036854775807, which
#     has the other sign.
#   - 1.10.6 and 1.10.8 read each integer that is too large as
#     9223372036854775807, and each that is too small as -9223372036854775808.
#   - All of them say that it is an Integer, and no error.
#   - 1.6.6 writes the double 1e19 as 1e+19.0, which no parser of JSON takes, its
#     own included.  1.10 writes 1e+19.
#   libjson-glib-1.0-0 1.6.6-1 (Debian 12), 1.10.6+ds-2 (Debian 13),
#   1.10.8+ds-2+b1 (unstable).
# Why it matters:
#   A client of QMP that reads an address or a counter so has another number, and
#   on Debian 12 a negative one.  A tool whose output is read by others fails on
#   the first large double.
# How to cope:
#   Look at the text of a number before json-glib parses it, if all bits count;
#   write doubles with a formatter of one's own.

. "$(dirname "$0")/lib.sh" || exit
need gcc

cat >"$DIR/numbers.c" <<'END'
#include <inttypes.h>
#include <stdio.h>

/* As json-glib declares them */
void *json_from_string(const char *text, void **error);
void *json_node_get_array(void *node);
void *json_array_get_element(void *array, unsigned i);
const char *json_node_type_name(void *node);
int64_t json_node_get_int(void *node);
char *json_to_string(void *node, int pretty);

int main(void)
{
    static const char *const texts[] = {
        "[9223372036854775807]", "[9223372036854775808]",
        "[18446744073709551615]", "[36893488147419103232]",
        "[-9223372036854775809]", "[1e19]",
    };

    for (unsigned i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        void *node = json_from_string(texts[i], NULL), *number;
        char *written;

        if (!node) {
            printf("%s: an error\n", texts[i]);
            continue;
        }
        number = json_array_get_element(json_node_get_array(node), 0);
        written = json_to_string(node, 0);
        printf("%s: %s", texts[i], json_node_type_name(number));
        if (*json_node_type_name(number) == 'I') {
            printf(" %" PRId64, json_node_get_int(number));
        }
        printf(", written as %s, which is %s\n", written,
               json_from_string(written, NULL) ? "read again" : "not read");
    }
    return 0;
}
END

# check SUITE VERSION WANTED
check() {
    local root=$DIR/$1 found
    from "$1"
    get_all "$root" "libjson-glib-1.0-0=$2"
    # Types are plain C ones, so that no headers are needed.
    gcc -w -o "$root/numbers" "$DIR/numbers.c" -Wl,--unresolved-symbols=ignore-all \
        "$root"/usr/lib/x86_64-linux-gnu/libjson-glib-1.0.so.0
    say "$1: json-glib $2"
    found=$(within "$root" numbers 2>/dev/null)
    say "$found"
    [ "$found" = "$3" ] || changed "json-glib $2 reads or writes something else"
}

check bookworm 1.6.6-1 \
'[9223372036854775807]: Integer 9223372036854775807, written as [9223372036854775807], which is read again
[9223372036854775808]: Integer -9223372036854775808, written as [-9223372036854775808], which is read again
[18446744073709551615]: Integer -1, written as [-1], which is read again
[36893488147419103232]: Integer -1, written as [-1], which is read again
[-9223372036854775809]: Integer 9223372036854775807, written as [9223372036854775807], which is read again
[1e19]: Floating Point, written as [1e+19.0], which is not read'
NEW='[9223372036854775807]: Integer 9223372036854775807, written as [9223372036854775807], which is read again
[9223372036854775808]: Integer 9223372036854775807, written as [9223372036854775807], which is read again
[18446744073709551615]: Integer 9223372036854775807, written as [9223372036854775807], which is read again
[36893488147419103232]: Integer 9223372036854775807, written as [9223372036854775807], which is read again
[-9223372036854775809]: Integer -9223372036854775808, written as [-9223372036854775808], which is read again
[1e19]: Floating Point, written as [1e+19], which is read again'
check trixie 1.10.6+ds-2 "$NEW"
check sid 1.10.8+ds-2+b1 "$NEW"
say "SO IT IS: large integers become others, and 1.6 writes 1e+19.0"

/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * usage: saved-debugctl FILE
 *
 * Prints what IA32_DEBUGCTL was, in decimal, in a state of a guest with one
 * vCPU that QEMU has saved in FILE: it follows the name and the version
 * (4 bytes) of the section "cpu/bts", in big endian.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    static const char name[] = "cpu/bts";
    FILE *file = argc == 2 ? fopen(argv[1], "rb") : NULL;
    unsigned char bytes[12];
    size_t matched = 0;
    uint64_t value = 0;
    int c;

    if (!file) {
        fprintf(stderr, "usage: saved-debugctl FILE\n");
        return 2;
    }
    while (name[matched] && (c = getc(file)) != EOF) {
        matched = c == name[matched] ? matched + 1 : c == name[0];
    }
    if (name[matched] || fread(bytes, sizeof(bytes), 1, file) != 1) {
        fprintf(stderr, "saved-debugctl: %s has no state of BTS\n", argv[1]);
        return 1;
    }
    for (unsigned n = 4; n < sizeof(bytes); n++) {
        value = value << 8 | bytes[n];
    }
    printf("%llu\n", (unsigned long long)value);
    return 0;
}

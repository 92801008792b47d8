/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * usage: saved-debugctl FILE
 *
 * Prints what IA32_DEBUGCTL was, in decimal, in a state of a guest with one
 * vCPU that QEMU has saved in FILE: it follows the name and the version
 * (4 bytes) of the section "cpu/ds", in big endian.
 */
#include <endian.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

int main(int argc, char **argv)
{
    static const char name[] = "cpu/ds";
    const size_t offset = sizeof(name) - 1 + 4;
    int fd = argc == 2 ? open(argv[1], O_RDONLY) : -1;
    const char *state, *found;
    struct stat st;
    uint64_t value;

    if (fd < 0 || fstat(fd, &st)) {
        fprintf(stderr, "usage: saved-debugctl FILE\n");
        return 2;
    }
    state = mmap(NULL, st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    /* The emulated machine would take minutes to read it byte by byte. */
    found = state == MAP_FAILED ? NULL :
            memmem(state, st.st_size, name, sizeof(name) - 1);
    if (!found || found + offset + sizeof(value) > state + st.st_size) {
        fprintf(stderr, "saved-debugctl: %s has no state of BTS\n", argv[1]);
        return 1;
    }
    memcpy(&value, found + offset, sizeof(value));
    printf("%llu\n", (unsigned long long)be64toh(value));
    return 0;
}

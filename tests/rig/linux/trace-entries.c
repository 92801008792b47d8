/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * usage: trace-entries RAM INDEX
 *
 * RAM is all memory of a guest that has less than 4 GiB.  Prints how many
 * entries of page tables QEMU has left there for a trace: what the CPU may
 * store through, only in the kernel's mode, and leads to where the guest has no
 * memory.  Fails if one is not the entry INDEX of its table.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define ADDRESS     0x000ffffffffff000ull
#define ACCESSED    0x20ull
/* Not to be executed; dirty, writable, present */
#define FLAGS       0x8000000000000043ull

#define TABLE       512

int main(int argc, char **argv)
{
    int fd = argc == 3 ? open(argv[1], O_RDONLY) : -1;
    size_t found = 0, elsewhere = 0, index, count;
    const uint64_t *ram;
    struct stat st;

    if (fd < 0 || fstat(fd, &st)) {
        fprintf(stderr, "usage: trace-entries RAM INDEX\n");
        return 2;
    }
    index = strtoul(argv[2], NULL, 0);
    count = st.st_size / sizeof(*ram);
    ram = mmap(NULL, st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (ram == MAP_FAILED) {
        perror(argv[1]);
        return 2;
    }
    for (size_t i = 0; i < count; i++) {
        if ((ram[i] & ~ADDRESS & ~ACCESSED) == FLAGS &&
            (ram[i] & ADDRESS) >> 32) {
            found++;
            elsewhere += i % TABLE != index;
        }
    }
    printf("%zu\n", found);
    return elsewhere != 0;
}

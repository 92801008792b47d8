/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * usage: trace-entries RAM
 *
 * RAM is all memory of a guest that has less than 4 GiB.  Prints how many
 * entries there are for a trace in page tables: of those that Linux does not
 * use, in any page, what the CPU may store through in the kernel's mode, and
 * leads to where the guest has no memory.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define ADDRESS     0x000ffffffffff000ull
#define ACCESSED    0x20ull
/* Not to be executed; dirty, writable, present */
#define FLAGS       0x8000000000000043ull

#define TABLE       512
#define FREE_BEGIN  256
#define FREE_END    272

int main(int argc, char **argv)
{
    int fd = argc == 2 ? open(argv[1], O_RDONLY) : -1;
    size_t found = 0, count;
    const uint64_t *ram;
    struct stat st;

    if (fd < 0 || fstat(fd, &st)) {
        fprintf(stderr, "usage: trace-entries RAM\n");
        return 2;
    }
    count = st.st_size / sizeof(*ram);
    ram = mmap(NULL, st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (ram == MAP_FAILED) {
        perror(argv[1]);
        return 2;
    }
    for (size_t table = 0; table + TABLE <= count; table += TABLE) {
        for (size_t i = table + FREE_BEGIN; i < table + FREE_END; i++) {
            found += (ram[i] & ~ADDRESS & ~ACCESSED) == FLAGS &&
                     (ram[i] & ADDRESS) >> 32;
        }
    }
    printf("%zu\n", found);
    return 0;
}

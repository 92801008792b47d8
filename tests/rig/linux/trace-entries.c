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
#include <unistd.h>

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
    const uint64_t *ram;
    size_t found = 0;
    off_t page = 0;
    struct stat st;

    if (fd < 0 || fstat(fd, &st)) {
        fprintf(stderr, "usage: trace-entries RAM\n");
        return 2;
    }
    ram = mmap(NULL, st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (ram == MAP_FAILED) {
        perror(argv[1]);
        return 2;
    }
    /* What the guest has never written to has no memory here, and gets none. */
    while ((page = lseek(fd, page, SEEK_DATA)) >= 0) {
        const uint64_t *table = ram + page / sizeof(*ram);

        for (int i = FREE_BEGIN; i < FREE_END; i++) {
            if ((table[i] & ~ADDRESS & ~ACCESSED) == FLAGS &&
                (table[i] & ADDRESS) >> 32) {
                found++;
            }
        }
        page += TABLE * sizeof(*ram);
    }
    printf("%zu\n", found);
    return 0;
}

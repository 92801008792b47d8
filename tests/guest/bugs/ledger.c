/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ledger: writes a file of good data.  See damage.
 */

#include <fcntl.h>
#include <unistd.h>

#include "ledger.h"

int main(int argc, char **argv)
{
    int fd = argc == 2 ? open(argv[1], O_WRONLY | O_CREAT, 0600) : -1;
    struct entry entries[ENTRIES];

    for (uint64_t block = 0; block < BLOCKS; block++) {
        for (unsigned i = 0; i < ENTRIES; i++) {
            entries[i] = (struct entry) {
                .number = block * ENTRIES + i, .amount = block * i,
            };
            entries[i].check = check_of(&entries[i]);
        }
        if (write(fd, entries, BLOCK) != BLOCK) {
            return 1;
        }
    }
    return fsync(fd);
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * audit: checks what ledger has written.  See damage.
 */

#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "ledger.h"

static struct entry entries[ENTRIES];

static int report(const struct entry *entry, int block, int disk_block)
{
    printf("BT: damaged %llx in block %d, block %d of the disk\n",
           (unsigned long long)entry->number, block, disk_block);
    return 0;
}

int main(int argc, char **argv)
{
    int fd = argc == 2 ? open(argv[1], O_RDONLY) : -1;

    for (int block = 0; block < BLOCKS; block++) {
        if (read(fd, entries, BLOCK) != BLOCK) {
            return 1;
        }
        for (unsigned i = 0; i < ENTRIES; i++) {
            if (entries[i].check != check_of(&entries[i])) {
                int disk_block = block;

                return ioctl(fd, FIBMAP, &disk_block) ||
                       report(&entries[i], block, disk_block);
            }
        }
    }
    return 1;
}

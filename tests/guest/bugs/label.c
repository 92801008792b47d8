/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * label: writes a label onto a disk, behind its file system; it takes the
 * file system's size, which is in blocks, as one in sectors.  See damage.
 */

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <unistd.h>

#define SECTOR 512

/* The beginning of ext2's superblock */
struct super {
    uint32_t inodes;
    uint32_t blocks;
    uint32_t reserved;
    uint32_t free_blocks;
    uint32_t free_inodes;
    uint32_t first_block;
    uint32_t log_block;
};

static const char label[SECTOR] = "A label of the disk";

static int write_label(int fd, const struct super *super)
{
    uint64_t offset = (uint64_t)super->blocks * SECTOR;

    return pwrite(fd, label, sizeof(label), offset) == sizeof(label);
}

int main(int argc, char **argv)
{
    int fd = argc == 2 ? open(argv[1], O_RDWR | O_SYNC) : -1;
    struct super super;

    if (pread(fd, &super, sizeof(super), 1024) != sizeof(super)) {
        return 1;
    }
    return !write_label(fd, &super);
}

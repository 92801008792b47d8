/*
 * Checkpoints of a replay, in a file
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef REPLAY_CHECKPOINTS_FILE_H
#define REPLAY_CHECKPOINTS_FILE_H

#include "exec/cpu-common.h"
#include "exec/ramblock.h"
#include "page-versions.h"
#include "replay-internal.h"
#include "written-pages.h"

/* What a block of RAM is like at a checkpoint, besides its contents */
typedef struct BlockState {
    char id[sizeof_field(RAMBlock, idstr)];
    ram_addr_t offset;
    ram_addr_t length;
} BlockState;

typedef struct Checkpoint {
    int64_t icount;
    int64_t ran_ns;             /* to come here from the one before */
    WrittenPages *written;      /* the same */
    bool loaded;                /* from a file, in which its pages are */
    GArray *blocks;             /* BlockState */
    ReplayState replay;
    uint8_t *state;
    size_t state_size;
} Checkpoint;

void checkpoint_free(Checkpoint *c);

/**
 * CheckpointSet - checkpoints and what pages contain at them
 * @list:  Checkpoint, in the order of icount
 * @ram:   pages of RAM, by their address
 * @disks: pages of disks, as replay-disks.h has them
 */
typedef struct CheckpointSet {
    GPtrArray *list;
    PageVersions *ram;
    PageVersions *disks;
} CheckpointSet;

/* Writes a set, which has at least one checkpoint, to a file or a pipe. */
bool checkpoints_file_write(int fd, const CheckpointSet *set, Error **errp);

/**
 * CheckpointsFile - a file in memory
 * @bytes: which pages of a set refer to
 */
typedef struct CheckpointsFile {
    void *bytes;
    size_t size;
} CheckpointsFile;

/*
 * Reads a set from a regular file, which must not change as long as it is
 * mapped.  Checks each number, and that the file fits the machine and the log;
 * what is in pages and in states of devices is not checked, so it must come
 * from somebody who is trusted.
 */
bool checkpoints_file_read(int fd, uint64_t max_size, CheckpointSet *set,
                           CheckpointsFile *file, Error **errp);
void checkpoints_file_unmap(CheckpointsFile *file);

#endif

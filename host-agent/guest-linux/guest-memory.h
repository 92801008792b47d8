/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest's RAM, which is read while the guest runs
 *
 * It is read with pread(2) and not mapped unless the file is sealed against
 * that: one that is truncated is then an error and not a SIGBUS.
 *
 * It can also be a view: what a guest of the guest has as its memory.
 */

#ifndef GUEST_MEMORY_H
#define GUEST_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backtrail/transport.h"

#define GUEST_PAGE_SIZE     4096u
#define GUEST_RANGES_MAX    64

struct guest_memory;

/**
 * struct guest_memory_files - where the guest's RAM is, as the producer says
 * @reason: enum btrail_memory_reason; the rest is empty unless it is
 *          BTRAIL_MEMORY_SHARED
 * @head:   gives the number of ranges and files
 * @ranges: each names a file that exists; nothing else of them is checked
 * @fds:    the files, which belong to the owner of this struct; -1 for none
 */
struct guest_memory_files {
    uint32_t reason;
    struct btrail_memory head;
    struct btrail_memory_range ranges[BTRAIL_MEMORY_MAX_RANGES];
    int fds[BTRAIL_MEMORY_MAX_FILES];
};

/* Closes the files, too. */
void guest_memory_files_free(struct guest_memory_files *files);

struct guest_memory *guest_memory_new(void);
void guest_memory_free(struct guest_memory *m);

/**
 * struct guest_memory_view - memory that is not in ranges of its own
 * @read, @find_page, @begin: as guest_memory_read() and so on
 */
struct guest_memory_view {
    bool (*read)(void *opaque, uint64_t address, void *buf, size_t size);
    uint64_t (*find_page)(void *opaque, uint64_t from, const void *bytes,
                          size_t size);
    void (*begin)(void *opaque);
};

/* @view and @opaque must outlive it. */
struct guest_memory *guest_memory_new_view(const struct guest_memory_view *view,
                                           void *opaque);

/* Is it the memory of a guest of the guest? */
bool guest_memory_is_view(const struct guest_memory *m);

/* Begins a scan: a view forgets what it has found, which may have changed. */
void guest_memory_begin(const struct guest_memory *m);

/* The ranges of these files that are usable; they may be freed afterwards. */
struct guest_memory *guest_memory_open(const struct guest_memory_files *files);

/* Takes the ranges of @other, which is freed, in place of its own. */
void guest_memory_replace(struct guest_memory *m, struct guest_memory *other);

/*
 * Adds a range of guest physical memory that is in a file or in memory that
 * outlives @m.  guest_memory_free() closes the file.  Several ranges may be in
 * one file; each requires a descriptor of its own.
 *
 * Returns false if the range overlaps another one, is not of whole pages, or
 * there are too many; @fd then stays the caller's.
 */
bool guest_memory_add_file(struct guest_memory *m, uint64_t address,
                           uint64_t size, int fd, uint64_t offset);
bool guest_memory_add_bytes(struct guest_memory *m, uint64_t address,
                            uint64_t size, const void *bytes);

/* The bytes in all ranges */
uint64_t guest_memory_size(const struct guest_memory *m);

/*
 * Reads all of the range, or returns false if not all of it is RAM.  What the
 * guest writes meanwhile may be seen in part; 8 aligned bytes are seen whole.
 */
bool guest_memory_read(const struct guest_memory *m, uint64_t address,
                       void *buf, size_t size);

/*
 * Returns the next page at @from or above that begins with these bytes, or
 * UINT64_MAX.  Pages that were never written to are skipped without a read.
 */
uint64_t guest_memory_find_page(const struct guest_memory *m, uint64_t from,
                                const void *bytes, size_t size);

#endif /* GUEST_MEMORY_H */

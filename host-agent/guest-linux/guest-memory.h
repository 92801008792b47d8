/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest's RAM, to be read while the guest runs
 *
 * It is read with pread(2), not mapped: a file that somebody cuts off is an
 * error then and not a SIGBUS, and a hole in it stays a hole.
 */

#ifndef GUEST_MEMORY_H
#define GUEST_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GUEST_PAGE_SIZE     4096u
#define GUEST_RANGES_MAX    64

struct guest_memory;

struct guest_memory *guest_memory_new(void);
void guest_memory_free(struct guest_memory *m);

/*
 * A range of guest physical memory, in a file or in memory that outlives @m.
 * The file is closed by guest_memory_free(), several ranges may be in one:
 * each takes a descriptor of its own.
 *
 * False if it overlaps another one, is not of whole pages, or there are too
 * many; @fd is the caller's then.
 */
bool guest_memory_add_file(struct guest_memory *m, uint64_t address,
                           uint64_t size, int fd, uint64_t offset);
bool guest_memory_add_bytes(struct guest_memory *m, uint64_t address,
                            uint64_t size, const void *bytes);

/* Bytes in all ranges */
uint64_t guest_memory_size(const struct guest_memory *m);

/*
 * All of it or nothing: false if not all of it is RAM.  What the guest writes
 * meanwhile may be there in part, but 8 bytes that are aligned are whole.
 */
bool guest_memory_read(const struct guest_memory *m, uint64_t address,
                       void *buf, size_t size);

/*
 * The next page at @from or above that begins with these bytes, or UINT64_MAX.
 * Pages that have never been written to are passed over without reading.
 */
uint64_t guest_memory_find_page(const struct guest_memory *m, uint64_t from,
                                const void *bytes, size_t size);

#endif /* GUEST_MEMORY_H */

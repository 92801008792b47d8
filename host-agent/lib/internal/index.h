/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Indices: where the chunks of a file are, and what is in them
 */

#ifndef BTRAIL_INDEX_H
#define BTRAIL_INDEX_H

#include "lib/agent/chunk.h"
#include "lib/agent/sideband.h"
#include "lib/internal/block.h"

/* The most META, DATA and SIDEBAND chunks that a file can have */
#define BTRAIL_MAX_CHUNKS   (1u << 24)

/**
 * struct btrail_index_entry - one chunk
 * @offset:      of the chunk header in the file
 * @size:        of the payload
 * @type:        enum btrail_chunk_type; for META all that follows is 0, and
 *               for SIDEBAND all but what btrail_index_entry_sideband() sets
 * @vcpu:        whose stream
 * @first_index, @end_index: index before and after the chunk
 * @time_first, @time_last:  host clock of the first and last TIME event
 * @records, @events:        how many
 * @cr3:         in force before the first event and record
 * @switches:    address spaces that the chunk switches to, or
 *               BTRAIL_CR3SET_MANY
 * @roots:       where the list of them begins, see btrail_roots_new()
 * @time_max:    the latest time of this chunk and those before it; an open
 *               trace sets it
 * @file:        which file of the trace; an open trace sets it, and a store
 *               uses it for where the chunk is from
 */
struct btrail_index_entry {
    uint64_t offset;
    uint32_t size;
    uint16_t type;
    uint16_t vcpu;
    uint64_t first_index;
    uint64_t end_index;
    uint64_t time_first;
    uint64_t time_last;
    uint32_t records;
    uint32_t events;
    uint64_t cr3;
    uint32_t switches;
    uint32_t roots;
    uint32_t file;
    uint64_t time_max;
};

/* An array of entries, and one of them */
GArray *btrail_index_new(void);
static inline struct btrail_index_entry *btrail_entry(const GArray *entries,
                                                      unsigned i)
{
    return &g_array_index(entries, struct btrail_index_entry, i);
}

/* An array for the lists of address spaces of many entries, of uint64_t */
GArray *btrail_roots_new(void);

/* The list of an entry; valid until one is added. */
static inline const uint64_t *
btrail_roots_of(const GArray *roots, const struct btrail_index_entry *e)
{
    return &g_array_index(roots, uint64_t, e->roots);
}

/* Does a chunk switch to an address space?  Perhaps, if there were many. */
enum btrail_switches {
    BTRAIL_SWITCHES_NO,
    BTRAIL_SWITCHES_YES,
    BTRAIL_SWITCHES_PERHAPS,
};
enum btrail_switches btrail_roots_switches(const GArray *roots,
                                           const struct btrail_index_entry *e,
                                           uint64_t root);

/* Copies the list of @e from @from to @roots. */
void btrail_roots_copy(GArray *roots, struct btrail_index_entry *e,
                       const GArray *from);

/* The entry of a DATA chunk with this block */
void btrail_index_entry_fill(struct btrail_index_entry *e, uint64_t offset,
                             uint32_t size,
                             const struct btrail_block_header *header,
                             GArray *roots);

/* The entry of a SIDEBAND chunk, and its description */
void btrail_index_entry_sideband(struct btrail_index_entry *e,
                                 uint64_t offset, uint32_t size,
                                 const struct btrail_sideband_info *info);
void btrail_index_entry_info(const struct btrail_index_entry *e,
                             struct btrail_sideband_info *info);

/* Are entry and block of the same chunk? */
bool btrail_index_entry_fits(const struct btrail_index_entry *e,
                             const GArray *roots,
                             const struct btrail_block_header *header);

/*
 * The payload of an INDEX chunk has for each chunk such a piece, followed by
 * its list.
 */
#define BTRAIL_INDEX_ENTRY_SIZE     72
#define BTRAIL_INDEX_ROOT_SIZE      8
#define BTRAIL_INDEX_MAX_PAYLOAD    (1u << 20)

/* Bytes of an entry with its list */
size_t btrail_index_entry_size(const struct btrail_index_entry *e);

void btrail_index_entry_append(struct btrail_buf *payload,
                               const struct btrail_index_entry *e,
                               const GArray *roots);

/*
 * Gets the entry at @p, and adds its list to @roots.  Returns what is after
 * it, or NULL if it is damaged or cannot be that of any chunk.
 */
const uint8_t *btrail_index_entry_get(const uint8_t *p, const uint8_t *end,
                                      struct btrail_index_entry *e,
                                      GArray *roots);

#endif /* BTRAIL_INDEX_H */

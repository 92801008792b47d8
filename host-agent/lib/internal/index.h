/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Indices: where the chunks of a file are, and what is in them
 */

#ifndef BTRAIL_INDEX_H
#define BTRAIL_INDEX_H

#include "lib/internal/block.h"
#include "lib/internal/chunk.h"
#include "lib/internal/sideband.h"

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
 * @roots:       where the list of them begins, see struct btrail_roots
 * @time_max:    the latest time of this chunk and those before it; for use by
 *               whoever has the whole stream
 * @file:        which file of the trace; for use by whoever has several, and
 *               by whoever writes one
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

/**
 * struct btrail_roots - the lists of address spaces of many entries
 * @list: of uint64_t
 */
struct btrail_roots {
    GArray *list;
};

void btrail_roots_init(struct btrail_roots *roots);
void btrail_roots_clear(struct btrail_roots *roots);

/* The list of an entry; as long as none is added. */
static inline const uint64_t *
btrail_roots_of(const struct btrail_roots *roots,
                const struct btrail_index_entry *e)
{
    return &g_array_index(roots->list, uint64_t, e->roots);
}

/* Does a chunk switch to an address space?  Perhaps, if there were many. */
enum btrail_switches {
    BTRAIL_SWITCHES_NO,
    BTRAIL_SWITCHES_YES,
    BTRAIL_SWITCHES_PERHAPS,
};
enum btrail_switches btrail_roots_snapshot(const struct btrail_roots *roots,
                                       const struct btrail_index_entry *e,
                                       uint64_t root);

/* Make @e, an entry with a list in @from, one with a list in @roots. */
void btrail_roots_copy(struct btrail_roots *roots,
                       struct btrail_index_entry *e,
                       const struct btrail_roots *from);

/* The entry of a DATA chunk with this block */
void btrail_index_entry_fill(struct btrail_index_entry *e, uint64_t offset,
                             uint32_t size,
                             const struct btrail_block_header *header,
                             struct btrail_roots *roots);

/* The entry of a SIDEBAND chunk, and what it says of it */
void btrail_index_entry_sideband(struct btrail_index_entry *e,
                                 uint64_t offset, uint32_t size,
                                 const struct btrail_sideband_info *info);
void btrail_index_entry_info(const struct btrail_index_entry *e,
                             struct btrail_sideband_info *info);

/* Are entry and block of the same chunk? */
bool btrail_index_entry_fits(const struct btrail_index_entry *e,
                             const struct btrail_roots *roots,
                             const struct btrail_block_header *header);

/*
 * The payload of an INDEX chunk: for each chunk such a piece, and its list
 * behind it.
 */
#define BTRAIL_INDEX_ENTRY_SIZE     72
#define BTRAIL_INDEX_ROOT_SIZE      8
#define BTRAIL_INDEX_MAX_PAYLOAD    (1u << 20)

/* Bytes that an entry takes with its list */
size_t btrail_index_entry_size(const struct btrail_index_entry *e);

void btrail_index_entry_append(struct btrail_buf *payload,
                               const struct btrail_index_entry *e,
                               const struct btrail_roots *roots);

/*
 * Get the entry at @p, and add its list to @roots.  Returns what is behind
 * it, or NULL if it is damaged: also if it could not be that of any chunk.
 */
const uint8_t *btrail_index_entry_get(const uint8_t *p, const uint8_t *end,
                                      struct btrail_index_entry *e,
                                      struct btrail_roots *roots);

#endif /* BTRAIL_INDEX_H */

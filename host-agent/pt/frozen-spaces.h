/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which address spaces a stream of Intel PT has, and of which no program could
 * be decoded
 *
 * The kernel's code is that of all address spaces, and is known as a rule.
 * What an address space has of its own is in the lower half; once its process
 * has ended, its page tables are gone, and with them the way to its code.
 */

#ifndef BTRAIL_FROZEN_SPACES_H
#define BTRAIL_FROZEN_SPACES_H

#include <stdbool.h>
#include <stdint.h>

/* So many are told apart. */
#define FROZEN_SPACES_MAX   (1u << 16)

/**
 * struct frozen_spaces_count
 * @seen:  address spaces
 * @never: of these, the ones with code in the lower half that was executed, of
 *         which none could be read and made into records
 * @more:  there were more than could be told apart
 */
struct frozen_spaces_count {
    uint64_t seen;
    uint64_t never;
    bool more;
};

struct frozen_spaces;

struct frozen_spaces *frozen_spaces_new(void);
void frozen_spaces_free(struct frozen_spaces *s);

/* One is in force. */
void frozen_spaces_see(struct frozen_spaces *s, uint64_t cr3);

/*
 * Code of its lower half was read, and records of that half were given out.
 * One without the other is not enough: an interrupt that comes where the guest
 * has just got to says a record, too, and code that was read can be another
 * one's.
 */
void frozen_spaces_read(struct frozen_spaces *s, uint64_t cr3);
void frozen_spaces_decode(struct frozen_spaces *s, uint64_t cr3);

/* Code of its lower half was executed, and could not be read. */
void frozen_spaces_fail(struct frozen_spaces *s, uint64_t cr3);

/* All of @from, such as those of another vCPU */
void frozen_spaces_add(struct frozen_spaces *s,
                       const struct frozen_spaces *from);

struct frozen_spaces_count frozen_spaces_counted(const struct frozen_spaces *s);

#endif /* BTRAIL_FROZEN_SPACES_H */

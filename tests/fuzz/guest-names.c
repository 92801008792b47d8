/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fuzz target: what a guest says of its processes
 *
 * The input is a number of struct report, that number in one byte before them,
 * and then what the guest sends.
 */

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "guest-names/name-snapshot.h"

/* SAMPLE_NONCE of the seeds */
#define NONCE   UINT64_C(0x1122334455667788)

/* What the drain reports: a sample, or a page if there is an address */
struct report {
    uint32_t tsc;
    uint16_t root;
    uint16_t vcpu;
    uint64_t address;
};

struct agent {
    struct name_spaces *spaces;
    struct name_owners *owners;
    uint64_t up_to;
    bool pti;
};

static void take(void *opaque, const struct word *w)
{
    struct agent *a = opaque;

    for (unsigned i = 0; i < 3 && w->type != BTRAIL_GUEST_SWITCHES; i++) {
        fuzz_require(!w->text[i][w->size[i]]);
    }
    switch (w->type) {
    case BTRAIL_GUEST_HELLO:
        fuzz_accepted();
        a->pti = w->hello.flags & BTRAIL_GUEST_HAS_PTI;
        name_owners_set_pti(a->owners, a->pti);
        break;
    case BTRAIL_GUEST_SWITCHES:
        name_owners_switches(a->owners, w);
        break;
    case BTRAIL_GUEST_UP_TO:
        a->up_to = w->up_to.time;
        break;
    default:
        break;
    }
    name_spaces_take(a->spaces, w);
}

static void report(struct agent *a, const struct report *r)
{
    if (r->address) {
        name_owners_page(a->owners, &(struct name_page) {
            r->tsc, r->tsc + 1000, (uint64_t)r->root << 12, r->address });
    } else {
        name_owners_sample(a->owners, &(struct name_sample) {
            r->tsc, r->tsc * UINT64_C(7), (uint64_t)r->root << 12, r->vcpu });
    }
}

static void got(void *opaque, const void *data, size_t size, uint64_t time)
{
    struct btrail_snapshot *s;

    fuzz_require(!btrail_snapshot_decode(&s, data, size));
    fuzz_require(s->n && s->end == time);
    for (uint32_t i = 0; i < s->n; i++) {
        fuzz_require(s->processes[i].pgd);
        fuzz_require(s->processes[i].mm && !(s->processes[i].mm >> 63));
    }
    btrail_snapshot_free(s);
}

/* What processes have compiled becomes files that are whole. */
static void check_functions(const struct name_spaces *spaces)
{
    const GPtrArray *all = name_spaces_all(spaces);

    for (guint i = 0; i < all->len; i++) {
        const struct name_space *space = g_ptr_array_index(all, i);
        GByteArray *file = space->functions ?
                           name_functions_file(space->functions) : NULL;
        Elf64_Ehdr h;

        if (file) {
            fuzz_require(file->len <= 4u << 20);
            memcpy(&h, file->data, sizeof(h));
            fuzz_require(h.e_shoff + h.e_shnum * sizeof(Elf64_Shdr) <=
                         file->len);
            g_byte_array_unref(file);
        }
    }
}

/* No two that own the same page tables at once */
static void check_owners(const struct name_spaces *spaces)
{
    const GPtrArray *all = name_spaces_all(spaces);

    for (guint i = 0; i < MIN(all->len, 64); i++) {
        const struct name_space *a = g_ptr_array_index(all, i);

        for (guint k = 0; a->root && k < i; k++) {
            const struct name_space *b = g_ptr_array_index(all, k);

            fuzz_require(a->root != b->root || a->begin >= b->end ||
                         b->begin >= a->end);
        }
    }
}

int fuzz_input(const uint8_t *data, size_t size)
{
    /* Some have enough of it, and the others find out what happens then. */
    uint64_t bytes = size && data[size - 1] % 2 ? 4096 + size * 2 :
                     BTRAIL_BUDGET_GUEST;
    struct btrail_budget *budget = btrail_budget_new_fixed(bytes, 4);
    struct agent a = {
        .spaces = name_spaces_new(budget), .owners = name_owners_new(budget),
    };
    struct name_reader *reader = name_reader_new(NONCE);
    size_t n = size ? MIN(data[0], (size - 1) / sizeof(struct report)) : 0;
    const uint8_t *said = data + (size ? 1 : 0) + n * sizeof(struct report);
    struct report r;
    char *why;

    name_reader_feed(reader, said, (size_t)(data + size - said), take, &a,
                     &why);
    g_free(why);
    for (size_t i = 0; i < n; i++) {
        memcpy(&r, data + 1 + i * sizeof(r), sizeof(r));
        report(&a, &r);
    }
    for (unsigned round = 0; round < 2; round++) {
        name_owners_count(a.owners, a.spaces, a.up_to);
        name_owners_decide(a.owners, a.spaces);
        check_owners(a.spaces);
        check_functions(a.spaces);
        name_snapshots(a.spaces, a.owners, a.pti, a.up_to, got, NULL);
        name_spaces_forget(a.spaces, a.up_to / 2);
    }
    name_reader_free(reader);
    name_spaces_free(a.spaces);
    name_owners_free(a.owners);
    fuzz_require(btrail_budget_left(budget) == bytes);
    btrail_budget_unref(budget);
    return 0;
}

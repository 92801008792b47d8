/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where calls come from: see call-sites.h
 */

#include "drain/call-sites.h"
#include "util/hash.h"

/* A bit for each address to which a call can return, by its lower bits */
#define BITS    (1u << 16)

struct call_site {
    uint64_t from;
    uint64_t known_since;
    bool returns;
};

struct call_sites {
    GHashTable *all;            /* struct call_site by its address */
    uint64_t returns[BITS / 64];
};

struct call_sites *call_sites_new(void)
{
    struct call_sites *sites = g_new0(struct call_sites, 1);

    sites->all = g_hash_table_new_full(btrail_int64_hash, g_int64_equal, NULL,
                                       g_free);
    return sites;
}

void call_sites_free(struct call_sites *sites)
{
    g_hash_table_unref(sites->all);
    g_free(sites);
}

bool call_sites_may_return(const struct call_sites *sites, uint64_t to)
{
    unsigned bit = to % BITS;

    return sites->returns[bit / 64] >> bit % 64 & 1;
}

static struct call_site *find(const struct call_sites *sites, uint64_t from)
{
    return g_hash_table_lookup(sites->all, &from);
}

bool call_sites_add(struct call_sites *sites, uint64_t from, uint64_t *now)
{
    struct call_site *site = find(sites, from);

    if (!site && g_hash_table_size(sites->all) < CALL_SITES_MAX) {
        site = g_new0(struct call_site, 1);
        site->from = from;
        site->known_since = ++*now;
        g_hash_table_insert(sites->all, &site->from, site);
        for (unsigned i = 1; i <= CALL_SITES_SIZE; i++) {
            unsigned bit = (from + i) % BITS;

            sites->returns[bit / 64] |= UINT64_C(1) << bit % 64;
        }
    }
    return site;
}

bool call_sites_return(const struct call_sites *sites, uint64_t to)
{
    for (unsigned i = 1; i <= CALL_SITES_SIZE; i++) {
        if (find(sites, to - i)) {
            return true;
        }
    }
    return false;
}

void call_sites_set_returned(struct call_sites *sites, uint64_t from)
{
    find(sites, from)->returns = true;
}

bool call_sites_has_returned(const struct call_sites *sites, uint64_t from)
{
    const struct call_site *site = find(sites, from);

    return site && site->returns;
}

uint64_t call_sites_known_since(const struct call_sites *sites, uint64_t from)
{
    return find(sites, from)->known_since;
}

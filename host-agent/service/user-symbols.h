/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Functions of guests' programs, found in files of this host
 *
 * All guests share one.
 */

#ifndef BTRAIL_USER_SYMBOLS_H
#define BTRAIL_USER_SYMBOLS_H

#include "service/config.h"
#include "guest-linux/symbol-places.h"

struct btrail_user_symbols;

/* At first, it only searches the default folders, by build-id. */
struct btrail_user_symbols *btrail_user_symbols_new(void);
void btrail_user_symbols_free(struct btrail_user_symbols *u);

/*
 * Search the folders of a configuration from now on, again also for files that
 * did not exist before.  Any thread may call this.
 */
void btrail_user_symbols_set(struct btrail_user_symbols *u,
                             const struct btrail_config *config);

/*
 * A btrail_symbol_fn, with a struct btrail_user_symbols.  Files stay open, up
 * to some number.
 */
enum btrail_symbol_answer
btrail_user_symbols_find(void *u, const char *path, const uint8_t *build_id,
                         size_t build_id_size, const char *symbol,
                         uint64_t *offset);

#endif /* BTRAIL_USER_SYMBOLS_H */

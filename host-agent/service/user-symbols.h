/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Functions of guests' programs, found in files of this host
 *
 * All guests share one.
 */

#ifndef BTRAIL_USER_SYMBOLS_H
#define BTRAIL_USER_SYMBOLS_H

#include "guest-linux/symbol-places.h"
#include "service/config.h"

struct user_symbols;

/* At first, it only searches the default folders, by build-id. */
struct user_symbols *user_symbols_new(void);
void user_symbols_free(struct user_symbols *u);

/*
 * Search the folders of a configuration from now on, again also for files that
 * did not exist before.  Any thread may call this.
 */
void user_symbols_set(struct user_symbols *u,
                      const struct config *config);

/**
 * user_symbols_below - what also searches other folders, before those of the
 *                      configuration
 * @u:       a struct user_symbols, which owns the result
 * @folders: absolute paths
 *
 * Returns NULL and an @error if there are too many of them.  Any thread may call
 * this.
 */
void *user_symbols_below(void *u, const char *const *folders, GError **error);

/*
 * A symbol_fn, with a struct user_symbols.  Files stay open, up
 * to some number.
 */
enum symbol_answer
user_symbols_find(void *u, const char *path, const uint8_t *build_id,
                  size_t build_id_size, const char *symbol,
                  GArray *offsets);

#endif /* BTRAIL_USER_SYMBOLS_H */

/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Dynamic symbols of a program or library, read from a process's memory
 *
 * The tables of the dynamic linker are in memory even if the host does not have
 * the file.  They have functions that other files may call; they do not have
 * local functions, nor any of a program that is linked statically.
 */

#ifndef LINUX_DYNAMIC_SYMBOLS_H
#define LINUX_DYNAMIC_SYMBOLS_H

#include <glib.h>

#include "guest-linux/page-walk.h"

/**
 * enum linux_symbol
 *
 * @LINUX_SYMBOL_NONE:   there is no such symbol, or it is not an ELF image
 * @LINUX_SYMBOL_ABSENT: some of the tables is not in memory, or the budget of
 *                       the walk is used up: it may be found later
 * @LINUX_SYMBOL_FOUND:  there is one
 */
enum linux_symbol {
    LINUX_SYMBOL_NONE,
    LINUX_SYMBOL_ABSENT,
    LINUX_SYMBOL_FOUND,
};

/* Versions of one symbol */
#define LINUX_SYMBOL_VERSIONS   8

/**
 * linux_dynamic_symbol() - find a function of an ELF image
 * @user:      the process's address space
 * @base:      where the beginning of the file is mapped
 * @name:      of a function, up to LINUX_SYMBOL_NAME_MAX bytes
 * @addresses: with LINUX_SYMBOL_FOUND, gets those of all its versions, each
 *             once; the process can have put anything there
 * @n:         how many
 *
 * The process can have forged all of it: reads are bounded by the walk's
 * budget, and by what an image of a sensible size has.
 */
#define LINUX_SYMBOL_NAME_MAX   4095
enum linux_symbol
linux_dynamic_symbol(struct page_walk *user, uint64_t base, const char *name,
                     uint64_t addresses[LINUX_SYMBOL_VERSIONS], unsigned *n);

#endif /* LINUX_DYNAMIC_SYMBOLS_H */

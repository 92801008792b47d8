/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Symbols that a program or library of a process has in its own memory
 *
 * What the dynamic linker needs is in memory, whoever has the file: functions
 * that others may call, by name.  Functions of its own, which nobody else is to
 * call, are not among them, nor is anything of a program that is linked
 * statically.
 */

#ifndef LINUX_DYNAMIC_SYMBOLS_H
#define LINUX_DYNAMIC_SYMBOLS_H

#include "guest-linux/page-walk.h"

/**
 * enum linux_symbol
 *
 * @LINUX_SYMBOL_NONE:   there is no such symbol, or no ELF image
 * @LINUX_SYMBOL_ABSENT: some of what tells is not in memory, or the budget of
 *                       the walk is used up: it may be found later
 * @LINUX_SYMBOL_FOUND:  it is there
 */
enum linux_symbol {
    LINUX_SYMBOL_NONE,
    LINUX_SYMBOL_ABSENT,
    LINUX_SYMBOL_FOUND,
};

/* Versions of one symbol */
#define LINUX_SYMBOL_VERSIONS   8

/**
 * linux_dynamic_symbol() - where an ELF image has a function
 * @user:      the process's address space
 * @base:      where the beginning of the file is mapped
 * @name:      of a function, up to LINUX_SYMBOL_NAME_MAX bytes
 * @addresses: with LINUX_SYMBOL_FOUND, gets those of all its versions, each
 *             once; they are what the process says, and may be anything
 * @n:         how many
 *
 * All of it is the process's own and may be made up: what is read is bounded
 * by the walk's budget, and by what an image of a sensible size has.
 */
#define LINUX_SYMBOL_NAME_MAX   4095
enum linux_symbol
linux_dynamic_symbol(struct page_walk *user, uint64_t base, const char *name,
                     uint64_t addresses[LINUX_SYMBOL_VERSIONS], unsigned *n);

#endif /* LINUX_DYNAMIC_SYMBOLS_H */

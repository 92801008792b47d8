/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How many files there are
 */
#ifndef COUNT_FILES_H
#define COUNT_FILES_H

/* In a folder, whatever they are, but not in folders in it */
unsigned count_files(const char *folder);

#endif /* COUNT_FILES_H */

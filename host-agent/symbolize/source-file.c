/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Files of source code: see source-file.h
 */

#include "symbolize/elf-files.h"
#include "symbolize/source-file.h"
#include "util/read-file.h"

char **source_file_read(char *const *folders, const char *file)
{
    for (; folders && *folders; folders++) {
        g_autofree char *path = elf_files_resolve(*folders, file);
        g_autofree char *text = NULL;
        size_t size;

        text = path ? read_whole_file(path, SOURCE_FILE_MAX, &size, NULL) :
               NULL;
        if (text) {
            g_auto(GStrv) columns = g_strsplit(text, "\t", -1);
            g_autofree char *spaced = g_strjoinv("        ", columns);

            return g_strsplit(spaced, "\n", -1);
        }
    }
    return NULL;
}

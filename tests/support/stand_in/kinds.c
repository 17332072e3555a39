/*
 * A program whose calls are of many kinds: 130 places that call twice with two sizes each, or as many sizes as its argument says from one place. The
 * vendor's library notes the calls; nothing is computed.
 */
#include <stddef.h>
#include <stdlib.h>

int cublasCreate_v2(void **handle);
int cublasSgemm_v2(void *, int, int, int, int, int, const float *, const float *, int, const float *, int, const float *, float *, int);
void stand_in_note(int is);

static void *handle;
static const float one = 1;

#define CALL(size) cublasSgemm_v2(handle, 0, 0, 0, size, 1, &one, NULL, 1, NULL, 1, &one, NULL, 1);
#define TEN(of) of of of of of of of of of of

static void places(int size) { TEN(TEN(CALL(size))) TEN(CALL(size)) TEN(CALL(size)) TEN(CALL(size)) }

int main(int argc, char **argv)
{
    cublasCreate_v2(&handle);
    stand_in_note(1);
    if (argc > 1)
        for (int i = 1; i <= atoi(argv[1]); ++i)
            CALL(i)
    else
        for (int i = 0; i < 4; ++i)
            places(100 * (i % 2) + 100);
    return 0;
}

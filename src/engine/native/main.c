/* bailey-engine-native: the native engine as a program of its own.  `bailey run` has it linked in. */
#include "engine/engine_main.h"

int main(int argc, char **argv)
{
	return engine_main(&engine_native, argc, argv);
}
